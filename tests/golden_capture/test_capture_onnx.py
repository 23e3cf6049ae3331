"""``divergraph capture``: a dump that compare reads back tensor for tensor."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run
from divergraph.comparison import CompareRequest, compare
from divergraph.dump_diff.diff_dumps import DiffRequest, diff_dumps
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.errors import InputError
from graphstore.model import Verdict
from importers.dumps.arrays.golden import scan_golden_dumps
from importers.registry import read_graph

pytestmark = pytest.mark.thorough

DATA = Path(__file__).parents[1] / "data"


def small_net(path: Path, *names: str, seed: int = 0) -> Path:
    """A chain of convolutions with ReLUs whose nodes are called *names*."""
    rng = np.random.default_rng(seed)
    nodes, weights, last = [], [], "x"
    for k, name in enumerate(names or ("conv_1", "conv_2", "conv_3")):
        kernel = (rng.standard_normal((4, 4, 3, 3)) / 6).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{k}"))
        nodes.append(
            helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], name=name, pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"], name=f"{name}/relu"))
        last = f"r{k}"
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 8, 8])
    given = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [image], [given], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def taken(model: Path, output: Path, device: StandIn = StandIn.FP32, seed: int = 1) -> Path:
    """A capture on made-up inputs; the graph file that was run."""
    return capture(CaptureRequest(model, output, device=device, seed=seed)).model


def test_every_tensor_is_written_and_found_again(tmp_path: Path) -> None:
    model = small_net(tmp_path / "net.onnx")
    taken(model, tmp_path / "golden")
    graph = read_graph(model)
    dumps = scan_golden_dumps(tmp_path / "golden", graph)
    assert {op for op, _, _ in dumps.tensors} == {op.id for op in graph.ops}
    assert set(dumps.graph_inputs) == {"x"}
    assert not dumps.problems
    assert not dumps.unmatched


@pytest.mark.parametrize("device", [StandIn.FP16, StandIn.INT8, StandIn.OPTIMIZED])
def test_a_stand_in_can_be_compared_with_the_original(tmp_path: Path, device: StandIn) -> None:
    model = small_net(tmp_path / "net.onnx")
    taken(model, tmp_path / "golden")
    stand_in = taken(model, tmp_path / "device", device)
    assert stand_in.parent == tmp_path / "device"
    data = compare(CompareRequest(model, tmp_path / "golden", stand_in, tmp_path / "device"))
    assert data.run.counts.compared >= 3
    worst = max(
        each.metrics.relative_euclidean_distance for each in data.comparisons if each.metrics
    )
    assert worst < 0.2
    assert (worst > 1e-6) is (device is not StandIn.OPTIMIZED)


def test_a_float16_model_is_not_quantised_and_that_is_said(tmp_path: Path) -> None:
    half = taken(small_net(tmp_path / "net.onnx"), tmp_path / "half", StandIn.FP16)
    with pytest.raises(InputError, match="weights are float32; these are float16"):
        taken(half, tmp_path / "device", StandIn.INT8)


def test_the_same_model_twice_is_clean(tmp_path: Path) -> None:
    model = small_net(tmp_path / "net.onnx")
    taken(model, tmp_path / "one")
    taken(model, tmp_path / "two")
    data = compare(CompareRequest(model, tmp_path / "one", model, tmp_path / "two"))
    assert data.run.verdict is Verdict.CLEAN
    assert data.run.counts.compared == 6
    assert all(not each.metrics.different for each in data.comparisons if each.metrics)


def test_hostile_and_long_names_stay_in_the_folder_and_are_found(tmp_path: Path) -> None:
    names = ("../../up", "/root/x", "a/b", "a_b", "x" * 300, "Größe<>|?*", "A/B", "line\nbreak")
    model = small_net(tmp_path / "net.onnx", *names)
    taken(model, tmp_path / "out" / "golden")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["golden"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "out"]
    graph = read_graph(model)
    dumps = scan_golden_dumps(tmp_path / "out" / "golden", graph)
    found = {op for op, _, _ in dumps.tensors}
    assert found == {op.id for op in graph.ops}


def test_inputs_come_from_npy_and_raw_files(tmp_path: Path) -> None:
    model = small_net(tmp_path / "net.onnx")
    value = np.random.default_rng(3).standard_normal((2, 4, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", value)
    value.tofile(tmp_path / "x.bin")
    for kind in ("npy", "bin"):
        files = {"x": tmp_path / f"x.{kind}"}
        capture(CaptureRequest(model, tmp_path / kind, inputs=files))
    arrays = [
        {path.name.rsplit(".", 2)[0]: np.load(path) for path in (tmp_path / kind).glob("*.npy")}
        for kind in ("npy", "bin")
    ]
    assert arrays[0].keys() == arrays[1].keys()
    np.testing.assert_array_equal(arrays[0]["conv_3_relu.0"], arrays[1]["conv_3_relu.0"])
    np.testing.assert_array_equal(arrays[0]["x.0"], value)


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_net(tmp_path / "net.onnx")
    out = tmp_path / "golden"
    assert run(["capture", str(model), "--random", "1", "-o", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"folder", "model", "executor", "tensors", "bytes", "left_out"} < set(told)
    assert told["tensors"] == 6
    assert told["folder"] == str(out)
    manifest = json.loads((out / "capture.json").read_text(encoding="utf-8"))
    assert manifest["device"] == "fp32"
    assert manifest["inputs"].keys() == {"x"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no value for x (float32 ?x4x8x8)"),
        (["--inputs", "y=a.npy"], "the model has no input 'y'"),
        (["--inputs", "x=a.npy"], "No such file"),
        (["--inputs", "x=text.npy"], "not a readable .npy file"),
        (["--inputs", "x=short.bin"], "do not fit input 'x'"),
        (["--inputs", "x=wrong.npy"], "has shape ?x4x8x8, not 3"),
        (["--inputs", "x="], "names no file"),
        (["--random", "1", "--memory", "0"], "--memory"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    small_net(tmp_path / "net.onnx")
    (tmp_path / "text.npy").write_text("hello", encoding="utf-8")
    (tmp_path / "short.bin").write_bytes(bytes(12))
    np.save(tmp_path / "wrong.npy", np.zeros(3, np.float32))
    before = sorted(tmp_path.iterdir())
    assert run(["capture", "net.onnx", "-o", "out", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    model = small_net(tmp_path / "net.onnx")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("precious", encoding="utf-8")
    for replace in (False, True):
        with pytest.raises(InputError, match="something here already"):
            capture(CaptureRequest(model, tmp_path / "mine", seed=1, replace=replace))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["work.txt"]


def test_replace_writes_over_an_earlier_capture(tmp_path: Path) -> None:
    model = small_net(tmp_path / "net.onnx")
    taken(model, tmp_path / "golden")
    before = {path.name for path in (tmp_path / "golden").iterdir()}
    capture(CaptureRequest(model, tmp_path / "golden", seed=2, replace=True))
    after = {path.name for path in (tmp_path / "golden").iterdir()}
    assert before & after == {"capture.json"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["golden", "net.onnx"]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    small_net(tmp_path / "net.onnx")
    limited = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "sys.dont_write_bytecode = True\n"  # cut modules would be kept
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "from divergraph.cli.main import run\n"
        "sys.exit(run(['capture', 'net.onnx', '--random', '1', '-o', 'out']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert "cannot write: File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx"]


@pytest.mark.slow
def test_a_killed_capture_shows_no_half_folder(tmp_path: Path) -> None:
    small_net(tmp_path / "net.onnx", *(f"conv_{k}" for k in range(200)))
    start = "from divergraph.cli.main import main; main()"
    command = [sys.executable, "-c", start, "capture", "net.onnx", "--random", "1", "-o", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if len(list(tmp_path.glob(".out-*/*.npy"))) > 20:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()


def page_on_capturing(language: str) -> list[str]:
    """What the page gives to copy in *language*; ``sh`` is for machines with TensorFlow."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "capture.md"
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_on_capturing_runs(tmp_path: Path) -> None:
    small_net(tmp_path / "model.onnx")
    np.save(tmp_path / "input.npy", np.ones((1, 4, 8, 8), np.float32))
    place = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for text in page_on_capturing("bash"):
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=tmp_path,
            env=os.environ | place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        assert "divergraph: " not in done.stderr
        assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["openvino", "ai_edge_litert"])
def test_the_recipes_for_other_runtimes_write_dumps(tmp_path: Path, runtime: str) -> None:
    pytest.importorskip(runtime, reason="of the extra real-devices")
    small_net(tmp_path / "model.onnx")
    shutil.copy(DATA / "tflite" / "net.tflite", tmp_path / "model.tflite")
    shape = (1, 4, 8, 8) if runtime == "openvino" else (1, 8, 6, 2)
    np.save(tmp_path / "input.npy", np.ones(shape, np.float32))
    (recipe,) = (text for text in page_on_capturing("python") if runtime in text)
    done = subprocess.run(
        [sys.executable, "-c", recipe], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    dumped = list((tmp_path / "device").glob("*.npy"))
    assert len(dumped) > 2
    assert all(np.load(path, allow_pickle=False).size for path in dumped)


def test_sizes_and_ranges_of_what_is_made_up_can_be_chosen(tmp_path, capsys):
    model = small_net(tmp_path / "net.onnx")
    arguments = ["capture", str(model), "--random", "1", "-o", str(tmp_path / "golden")]
    assert run([*arguments, "--shape", "x=3,4,8,8", "--range", "x=0..255"]) == 0
    fed = np.load(next((tmp_path / "golden").glob("x.*npy")))
    assert fed.shape == (3, 4, 8, 8)
    assert 0 <= fed.min() < 10 < 245 < fed.max() <= 255
    assert "taken as 1" not in capsys.readouterr().err
    assert run([*arguments, "--replace"]) == 0
    assert "note: the unknown sizes of x were taken as 1" in capsys.readouterr().err


def test_one_input_can_have_a_seed_of_its_own(tmp_path):
    text = (
        '<ir_version: 8, opset_import: ["": 17]> '
        "g (float[N] a, float[4] b) => (float[4] z) {z=Add(a, b)}"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "add.onnx")

    def fed(folder: str, *words: str) -> dict[str, bytes]:
        model, place = str(tmp_path / "add.onnx"), tmp_path / folder
        sized = ("--shape", "a=4", "--range", "a=5..6")
        assert run(["capture", model, "-o", str(place), *words, *sized]) == 0
        return {name: np.load(next(place.glob(f"{name}.*npy"))).tobytes() for name in "ab"}

    first = fed("first", "--random", "1")
    other = fed("other", "--random", "1", "-i", "a=random:2")
    alone = fed("alone", "-i", "a=random:2", "-i", "b=random:1")
    assert first["a"] != other["a"]
    assert first["b"] == other["b"]
    assert alone == other


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--shape", "x=3,4,9,8"), "does not fit input 'x'"),
        (("--shape", "y=3"), "no input 'y'"),
        (("--shape", "x"), "is no shape"),
        (("--range", "x=5..1"), "is no range"),
        (("--range", "0..nan"), "is no range"),
    ],
)
def test_shapes_and_ranges_that_do_not_fit_are_refused(tmp_path, capsys, option, said):
    model = small_net(tmp_path / "net.onnx")
    assert run(["capture", str(model), "--random", "1", "-o", str(tmp_path / "g"), *option]) == 2
    assert said in capsys.readouterr().err


def test_a_golden_dump_with_nan_is_doubted(tmp_path, capsys):
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] z) {y=Log(x) z=Neg(y)}'
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "log.onnx")
    arguments = ["capture", str(tmp_path / "log.onnx"), "--random", "1", "-o", str(tmp_path / "g")]
    assert run([*arguments, "--range", "-2..-1"]) == 0
    assert "doubt: 2 of 2 tensors have NaN or infinities, the first is y" in capsys.readouterr().err


def test_a_mask_of_infinities_is_no_doubt_about_the_inputs(tmp_path, capsys):
    """No other inputs would change it; what they reach behind it is finite again."""
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] z) '
        "<float one = {1.0}, float zero = {0.0}> "
        "{top = Div(one, zero) mask = Neg(top) y = Max(x, mask) z = Neg(y)}"
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "mask.onnx")
    arguments = ["capture", str(tmp_path / "mask.onnx"), "--random", "1", "-o", str(tmp_path / "g")]
    assert run(arguments) == 0
    assert "doubt" not in capsys.readouterr().err


def test_diff_takes_tensors_by_what_the_model_calls_them(tmp_path: Path) -> None:
    """An op may be called as the tensor of another: files are called after ops."""
    model = small_net(tmp_path / "net.onnx", "c1", "c0")
    folder = capture(CaptureRequest(model, tmp_path / "golden", seed=1)).folder
    files = json.loads((folder / "capture.json").read_text())["files"]
    np.savez(tmp_path / "dump.npz", **{name: np.load(folder / files[name]) for name in files})
    told = {"files": files | {"no tensor": "capture.json"}}  # whatever else somebody wrote there
    (folder / "capture.json").write_text(json.dumps(told))
    found = diff_dumps(DiffRequest(tmp_path / "dump.npz", folder))
    assert (found.compared, found.over, found.device_only) == (4, 0, ())
