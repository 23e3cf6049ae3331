"""``divergraph minimize`` on runs of a small network, with every oracle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from float32_device import SAID

from graphstore.open_store import open_store

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("minimize")]

DIVERGRAPH = (sys.executable, "-c", "from divergraph.cli.main import main; main()")
OPS = 'ops = set(json.load(open(sys.argv[1] + "/manifest.json"))["ops"])\n'


@pytest.mark.parametrize("oracle", ["auto", "evidence", "device-model"])
def test_one_wrong_op_is_found_with_one_call(minimize, oracle):
    ended = minimize("one", "--oracle", oracle, "--json")
    told = ended.json
    assert ended.code == 1
    assert told["ops"] == ["left"]
    assert (told["calls"], told["minimal"]) == (1, True)
    assert told["probes"][0]["error"] == pytest.approx(0.3, rel=0.01)


@pytest.mark.slow
def test_all_culprits_are_found_and_exported(minimize, tmp_path):
    told = minimize("three", "-o", tmp_path / "out", "--json").json
    assert sorted(part["ops"] for part in told["parts"]) == [["first"], ["last"], ["right"]]
    for part in told["parts"]:
        model = onnx.load(f"{part['bundle']}/dump.onnx")
        assert [node.name for node in model.graph.node] == part["ops"]
        manifest = json.loads(Path(part["bundle"], "manifest.json").read_text())
        assert manifest["evidence"]["verdict"] == "fail"
        assert manifest["variant"] == part["variant"] == "golden"
        done = subprocess.run([sys.executable, "replay.py"], cwd=part["bundle"], check=False)
        assert done.returncode == 0


def test_the_text_says_what_why_and_what_was_tried(minimize, tmp_path):
    said = minimize("one", "-o", tmp_path / "out").out
    assert "minimal failing part: 1 of 7 ops, fed golden inputs\n  left\n" in said
    assert "left was tried alone and fails" in said
    assert f"written to {tmp_path / 'out'}" in said
    assert "tried (1 calls of device-model):\n  fail         1 ops  left alone" in said


def test_the_result_is_kept_with_the_run(minimize, runs):
    told = minimize("one", "--json").json
    with open_store(str(runs)) as store:
        kept = json.loads(store.run("one").analysis.minimized)
    assert kept["ops"] == told["ops"] == ["left"]


@pytest.mark.slow
def test_answers_are_kept_with_the_run_in_its_store(minimize, program, tmp_path, cache):
    asked = tmp_path / "asked"
    oracle = program(OPS + f"open({str(asked)!r}, 'a').write('x')\nsys.exit('left' in ops)")
    first = minimize("one", "--oracle", oracle, "--json").json
    shutil.rmtree(cache)
    again = minimize("one", "--oracle", oracle, "--json").json
    assert again["ops"] == first["ops"] == ["left"]
    assert (first["calls"], again["calls"]) == (1, 0)
    assert again["probes"][0]["known"] == "an earlier session"
    assert minimize("one", "--oracle", oracle, "--fresh", "--json").json["calls"] == 1
    assert asked.read_text() == "xx"


def test_a_clean_run_is_not_searched(minimize):
    ended = minimize("clean", "--json")
    assert ended.code == 0
    assert ended.json["calls"] == 0
    assert "nothing in this run is over a limit" in ended.json["note"]
    verified = minimize("clean", "--oracle", "device-model", "--json")
    assert (verified.code, verified.json["calls"]) == (0, 1)
    assert verified.json["note"] == "the whole passes"


def test_where_the_devices_model_is_right_the_dumps_answer(minimize):
    ended = minimize("engine", "--json")
    assert (ended.code, ended.json["ops"]) == (1, ["left"])
    assert ended.json["oracle"] == "evidence"
    assert "right" in ended.json["note"]


@pytest.mark.parametrize(
    "kind", ["fp16", "optimized", pytest.param("int8", marks=pytest.mark.slow)]
)
def test_healthy_stand_ins_show_no_fault(minimize, kind):
    ended = minimize("one", "--oracle", f"stand-in:{kind}", "--variant", "golden", "--json")
    assert ended.code == 0
    assert {probe["verdict"] for probe in ended.json["probes"]} == {"pass"}


def test_a_device_model_in_another_file(minimize, compared):
    told = minimize("clean", "--oracle", f"device-model:{compared / 'one.onnx'}", "--json").json
    assert told["ops"] == ["left"]


def test_a_program_that_needs_two_ops_together(minimize, program):
    oracle = program(OPS + "sys.exit({'act', 'left'} <= ops)")
    told = minimize("one", "--oracle", oracle, "--json").json
    assert told["ops"] == ["act", "left"]
    assert told["parts"][0]["why"] == "left fails together with ops before it"


def test_a_program_that_writes_what_came_out(minimize, program):
    """It runs the part with a fault in MatMul and leaves the comparing to us."""
    oracle = program(
        "import numpy as np, onnxruntime\n"
        "os.chdir(sys.argv[1])\n"
        "told = json.load(open('manifest.json'))\n"
        "side = os.environ['DIVERGRAPH_VARIANT']\n"
        "feeds = {t['called']: np.load(t[side]) for t in told['inputs']}\n"
        "names = [t['called'] for t in told['outputs']]\n"
        "made = onnxruntime.InferenceSession('dump.onnx').run(names, feeds)\n"
        "for t, value in zip(told['outputs'], made):\n"
        "    name = pathlib.Path(t['golden']).name.replace('.golden', '')\n"
        "    np.save(f'made/{name}', value * (1.01 if 'left' in told['ops'] else 1))\n"
    )
    told = minimize("one", "--oracle", oracle, "--json").json
    assert told["ops"] == ["left"]
    assert told["parts"][0]["error"] == pytest.approx(0.01, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("print('no such kernel')\nsys.exit(9)", "the program exits 9: no such kernel"),
        ("os.kill(os.getpid(), 9)", "the program exits -9"),
        ("raise RuntimeError('no device')", "failed: RuntimeError: no device"),
        ("time.sleep(60)", "did not end within 0.5 s"),
        ("open(sys.argv[1] + '/made/x.npy', 'w')", "the program wrote no made/"),
        (
            "for t in json.load(open(sys.argv[1] + '/manifest.json'))['outputs']:\n"
            "    name = pathlib.Path(t['golden']).name.replace('.golden', '')\n"
            "    open(f'{sys.argv[1]}/made/{name}', 'wb').write(b'junk' * 50)",
            "is not an array",
        ),
    ],
    ids=["build", "killed", "in error", "hangs", "missing", "garbage"],
)
def test_a_program_that_fails_itself_proves_nothing(minimize, program, lines, said):
    patience = ("--timeout", "0.5") if "sleep" in lines else ()
    ended = minimize("one", "--oracle", program(lines), "--budget", "1", *patience, "--json")
    assert ended.code == 2
    (probe,) = ended.json["probes"]
    assert probe["verdict"] == "unknown"
    assert said in probe["said"]


@pytest.mark.parametrize(
    ("oracle", "said"),
    [
        ("nonsense", "there is no oracle 'nonsense' (there are: command, device-model, evidence"),
        ("command:", "--oracle command needs a program"),
        ("command:./not-there {bundle}", "is not there, or may not be run"),
        ("command:'unclosed", "cannot be read"),
        ("stand-in:fp4", "there is no stand-in 'fp4'"),
        ("evidence:x", "takes no argument"),
        ("device-model:/no/such.onnx", "/no/such.onnx"),
    ],
)
def test_an_oracle_that_cannot_be_is_refused(minimize, oracle, said):
    ended = minimize("one", "--oracle", oracle)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_a_killed_search_goes_on_where_it_was(minimize, program, runs, tmp_path):
    """The oracle notes each call; the second one of the first search never comes back."""
    notes = tmp_path / "notes"
    oracle = program(
        OPS + f"open({str(notes)!r}, 'a').write('called\\n')\n"
        f"if len(open({str(notes)!r}).readlines()) == 2: time.sleep(60)\n"
        "sys.exit({'first', 'left'} <= ops)"
    )
    command = [*DIVERGRAPH, "minimize", "one", "--oracle", oracle]
    command += ["--store", str(runs)]
    search = subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not notes.exists() or len(notes.read_text().splitlines()) < 2:
        assert time.monotonic() < deadline
        assert search.poll() is None
        time.sleep(0.05)
    search.send_signal(signal.SIGKILL)
    search.wait()
    told = minimize("one", "--oracle", oracle, "--json").json
    assert told["ops"] == ["first", "act", "left"]
    assert told["probes"][0]["known"] == "an earlier session"
    assert told["probes"][0]["calls"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c_heard")
def test_control_c_ends_the_program_and_keeps_what_is_known(program, runs, tmp_path):
    notes = tmp_path / "notes"
    oracle = program(f"open({str(notes)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")
    command = [*DIVERGRAPH, "minimize", "one", "--oracle", oracle]
    command += ["--store", str(runs)]
    search = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not notes.exists() or not notes.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    search.send_signal(signal.SIGINT)
    said, _ = search.communicate(timeout=30)
    assert search.returncode == 130
    assert "stopped early: stopped by the user" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(notes.read_text()), 0)


def test_a_search_can_be_limited_to_a_stretch(minimize):
    told = minimize("three", "--start", "left", "--end", "last", "--json").json
    assert told["parts"][0]["ops"] == ["last"]
    assert len(told["parts"]) == 1
    assert told["searched"] == 4
    ended = minimize("three", "--start", "left")
    assert (ended.code, "limit the search together" in ended.err) == (2, True)


def test_it_prints_the_documented_fields(minimize, tmp_path):
    told = minimize("one", "-o", tmp_path / "out", "--json").json
    assert set(told) == {
        *("run", "oracle", "ops", "minimal", "bundle", "parts", "probes", "calls"),
        *("searched", "note", "stopped", "rate"),
    }
    assert np.isfinite(told["parts"][0]["limit"])


@pytest.mark.slow
def test_a_run_without_root_causes_is_searched_by_its_origins(divergraph, tmp_path):
    """The training graph of the demo: the device fused three ops, which go together."""
    store = tmp_path / "store"
    divergraph("demo", "--store", store)
    told = divergraph("minimize", "demo", "--store", store, "--json").json
    assert told["oracle"] == "evidence"
    assert told["ops"] == [f"LeNet/conv2/{name}" for name in ("Conv2D", "BiasAdd", "Relu")]
    assert told["calls"] == 1


@pytest.mark.slow
def test_a_wrong_weight_is_tried_with_the_op_that_takes_it(divergraph, tmp_path):
    """Exporters write weights as Constant nodes; then the weight itself is the origin."""
    for name, factor in (("golden", 1), ("device", 1.2)):
        weight = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8) * np.float32(factor)
        nodes = [
            onnx.helper.make_node("Relu", ["x"], ["a"], "act"),
            onnx.helper.make_node("Constant", [], ["w"], "weight",
                                  value=onnx.numpy_helper.from_array(weight)),
            onnx.helper.make_node("MatMul", ["a", "w"], ["b"], "fc"),
            onnx.helper.make_node("Tanh", ["b"], ["y"], "squash"),
        ]  # fmt: skip
        ends = [onnx.helper.make_tensor_value_info(n, 1, [4, 8]) for n in "xy"]
        graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:])
        opsets = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
        onnx.save(model, tmp_path / f"{name}.onnx")
        divergraph("capture", tmp_path / f"{name}.onnx", "-o", tmp_path / name, "--random", 1)
    sides = ["--golden", tmp_path / "golden.onnx", "--golden-dump", tmp_path / "golden"]
    sides += ["--device", tmp_path / "device.onnx", "--device-dump", tmp_path / "device"]
    at = ("--store", tmp_path / "store")
    divergraph("compare", *sides, "--run", "r", *SAID, *at)
    for oracle in ("auto", "evidence"):
        told = divergraph("minimize", "r", "--oracle", oracle, *at, "--json").json
        assert told["ops"] == ["fc"]
        assert told["calls"] == 1
