"""``divergraph submodel``: a part with its data, in a folder that stands alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from float32_device import SAID
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)
NASTY = "../../escape"


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of which the device computes the second MatMul with other weights."""
    from divergraph.cli.main import run

    folder = tmp_path_factory.mktemp("submodel")
    long_name = "n" * 300
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], [NASTY], "act"),
        helper.make_node("MatMul", [NASTY, "v"], [long_name], "second"),
        helper.make_node("Add", [long_name, "a"], ["größe"], "join"),
        helper.make_node("Tanh", ["größe"], ["y"], "last"),
    ]
    weights = {name: RNG.standard_normal((8, 8)).astype(np.float32) for name in "wv"}
    for side in ("golden", "device"):
        held = weights if side == "golden" else weights | {"v": weights["v"] * 1.1}
        graph = helper.make_graph(
            nodes,
            "net",
            [value("x", 4, 8)],
            [value("y", 4, 8)],
            [numpy_helper.from_array(array, name) for name, array in held.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        onnx.save(model, str(folder / f"{side}.onnx"))
        np.save(folder / "x.npy", RNG.standard_normal((4, 8)).astype(np.float32))
    for side in ("golden", "device"):
        feeds = f"x={folder / 'x.npy'}"
        target = str(folder / side)
        assert run(["capture", str(folder / f"{side}.onnx"), "--inputs", feeds, "-o", target]) == 0
    code = run(
        [
            *("compare", "--golden", str(folder / "golden.onnx")),
            *("--golden-dump", str(folder / "golden"), "--device", str(folder / "device.onnx")),
            *("--device-dump", str(folder / "device"), "--run", "r"),
            *("--store", str(folder / "store"), *SAID),
        ]
    )
    assert code == 1
    return folder


@pytest.fixture
def submodel(divergraph, folder):
    return lambda *words: divergraph("submodel", "r", *words, "--store", folder / "store")


def test_without_output_it_shows_the_part(submodel):
    done = submodel("--start", "act", "--end", "join")
    assert done.code == 0
    assert "3 ops, 1 weight\n" in done.out
    assert "in  a: float32, 4x8" in done.out


def test_options_for_models_are_refused_with_runs(submodel):
    done = submodel("--start", "act", "--end", "join", "--random", "1")
    assert (done.code, "--random is for models, and 'r' is a run" in done.err) == (2, True)


def test_the_bundle_gives_the_golden_outputs_again(submodel, tmp_path):
    done = submodel("--start", "act", "--end", "join", "-o", tmp_path, "--check", "--json")
    assert done.code == 0
    found = done.json
    assert found["check"]["passed"] is True
    assert found["ops"] == ["act", "second", "join"]
    (bundle,) = tmp_path.iterdir()
    assert str(bundle) == found["path"]
    assert bundle.name.startswith("dump_result_20")
    onnx.checker.check_model(str(bundle / "dump.onnx"), full_check=True)
    assert "Export Layer:act,second,join" in (bundle / "export.log").read_text()


def test_hostile_names_stay_inside(submodel, tmp_path):
    inner = tmp_path / "a" / "b" / "c"
    assert submodel("--start", "first", "--end", "last", "-o", inner).code == 0
    outside = [path for path in tmp_path.rglob("*") if inner not in (path, *path.parents)]
    assert sorted(outside) == [tmp_path / "a", tmp_path / "a" / "b"]
    names = [path.name for path in inner.rglob("*")]
    assert all(len(name.encode()) <= 255 for name in names)


def test_a_bundle_is_a_new_run(divergraph, submodel, folder, tmp_path):
    submodel("--start", "act", "--end", "join", "-o", tmp_path)
    (bundle,) = tmp_path.iterdir()
    done = divergraph(
        *("compare", "--golden", bundle / "dump.onnx"),
        *("--golden-dump", bundle / "dump_data" / "golden", "--device", folder / "device.onnx"),
        *("--device-dump", bundle / "dump_data" / "device", "--store", tmp_path / "s", "--json"),
    )
    assert done.code == 1
    assert [origin["op"] for origin in done.json["origins"]] == ["second"]


@pytest.mark.slow
def test_replay_says_what_is_wrong(submodel, tmp_path):
    submodel("--start", "act", "--end", "join", "-o", tmp_path)
    (bundle,) = tmp_path.iterdir()

    def replay(*words):
        command = [sys.executable, bundle / "replay.py", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert replay().returncode == 0
    # on the device's own inputs the golden part does not give what the device gave
    wrong = replay("--device")
    assert (wrong.returncode, "FAILED" in wrong.stdout) == (1, True)
    output = next((bundle / "outputs").glob("*.golden.npy"))
    np.save(output, np.load(output) + 1)
    changed = replay()
    assert changed.returncode == 1
    assert "changed since the export" in changed.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--start", "last", "--end", "act"], "refused: the end act comes before the start last"),
        (["--start", "nix", "--end", "act"], "the graph has no op 'nix'"),
        (["--end", "act"], "no start op is given"),
        (["--start", "act", "--end", "join", "--format", "tf", "-o", "."], "--format onnx"),
        (["--start", "act", "--end", "join", "--check"], "say where to write with -o"),
        (["--start", "act", "--end", "join", "-o", "/dev/null/x"], "cannot be written"),
        (["--start", "act", "--end", "act", "--model", "nowhere.onnx", "-o", "."], "nowhere.onnx"),
    ],
)
def test_what_cannot_be_done_ends_with_two(submodel, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    done = submodel(*words)
    assert done.code == 2
    assert said in done.err
    assert not list(tmp_path.iterdir())


def test_refusals_are_in_the_json(submodel):
    done = submodel("--start", "last", "--end", "act", "--json")
    assert done.code == 2
    (refusal,) = done.json["refused"]
    assert (refusal["rule"], refusal["starts"], refusal["ends"]) == (
        "turned_round",
        ["act"],
        ["last"],
    )
    assert done.json["path"] is None


@pytest.mark.slow
def test_a_kill_leaves_no_bundle_of_the_final_name(folder, tmp_path):
    command = [
        *(sys.executable, "-m", "divergraph", "submodel", "r", "--start", "act", "--end", "last"),
        *("-o", str(tmp_path), "--store", str(folder / "store")),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(tmp_path.iterdir()):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    whole = [path for path in tmp_path.iterdir() if not path.name.startswith(".")]
    for path in whole:  # it may have been done before the signal came: then it is whole
        manifest = json.loads((path / "manifest.json").read_text())
        assert all((path / name).is_file() for name in manifest["sha256"])
