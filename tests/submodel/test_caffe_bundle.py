"""A part of a compared Caffe net in a bundle: its log, its data, run again and compared again."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from divergraph.cli.main import run
from divergraph.files.dump_names import MAPPING, DumpFileNames
from importers.proto.wire import BLOCK, varint_bytes
from importers.registry import read_graph

cv2 = pytest.importorskip("cv2")

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 6 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 3 kernel_size: 3 pad: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "tanh" type: "TanH" bottom: "pool1" top: "tanh" }
layer { name: "sum" type: "Eltwise" bottom: "pool1" bottom: "tanh" top: "sum" }
"""  # noqa: E501


def field(number, content):
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def blob(value):
    dims = field(1, b"".join(varint_bytes(size) for size in value.shape))
    return field(7, dims) + field(5, value.astype("<f4").tobytes())


def dump(net_file, weights, given, folder):
    """What OpenCV computes for each tensor, as a golden dump."""
    folder.mkdir()
    graph = read_graph(net_file, {"weights": str(weights)})
    net = cv2.dnn.readNetFromCaffe(str(net_file), str(weights))
    net.enableFusion(False)
    net.setInput(given, "data")
    names = DumpFileNames(graph, 1_600_000_000_000_000)
    for op in graph.ops:
        for port, _ in enumerate(op.outputs):
            layer = op.type != "Input"
            value = net.forwardAndRetrieve([op.name])[0][port] if layer else given
            np.save(folder / names.of_output(op, port), value)
    if names.mapping():
        (folder / MAPPING).write_text(names.mapping())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A net of which the device computes the convolution with other weights."""
    folder = tmp_path_factory.mktemp("caffe")
    rng = np.random.default_rng(5)
    given = rng.standard_normal((1, 2, 6, 6)).astype("f4")
    weight, bias = rng.standard_normal((3, 2, 3, 3)), rng.standard_normal(3)
    for side, factor in (("golden", 1.0), ("device", 1.2)):
        (folder / f"{side}.prototxt").write_text(NET)
        layer = field(1, b"conv1") + field(7, blob(weight * factor)) + field(7, blob(bias))
        (folder / f"{side}.caffemodel").write_bytes(field(1, b"small") + field(100, layer))
        dump(folder / f"{side}.prototxt", folder / f"{side}.caffemodel", given, folder / side)
    assert compared(folder, folder / "golden.prototxt", folder / "golden", "r") == 1
    return folder


def compared(folder, model, dumps, name):
    return run(
        [
            *("compare", "--golden", str(model), "--golden-dump", str(dumps)),
            *("--device", str(folder / "device.prototxt"), "--device-dump", str(folder / "device")),
            *("--run", name, "--store", str(folder / "store"), "--method", "thresholds"),
        ]
    )


@pytest.fixture
def submodel(folder, capsys):
    def call(*words):
        code = run(["submodel", "r", *map(str, words), "--store", str(folder / "store")])
        return code, capsys.readouterr()

    return call


def test_the_bundle_gives_the_golden_outputs_again(submodel, tmp_path):
    code, said = submodel("--start", "conv1", "--end", "sum", "-o", tmp_path, "--check", "--json")
    found = json.loads(said.out)
    assert (code, found["check"]["passed"]) == (0, True), said
    (bundle,) = tmp_path.iterdir()
    assert (bundle / "dump.prototxt").is_file()
    assert (bundle / "dump.caffemodel").is_file()


def test_its_log_says_what_the_vendors_tool_says(submodel, tmp_path):
    code, said = submodel("--start", "pool1", "--end", "tanh", "-o", tmp_path)
    assert code == 0, said
    (bundle,) = tmp_path.iterdir()
    log = (bundle / "export.log").read_text()
    assert 'Add Layer Into Prototxt:\nname: "pool1_input_0"\ntype: "Input"\ntop: "conv1"\n' in log
    assert "Export Layer:pool1,tanh\n" in log
    assert "Dump Layer:[pool1]\n" in log
    assert "Output Dump Path:" in log


def test_the_data_layer_as_a_start_is_given_to_the_part(submodel, tmp_path):
    code, said = submodel("--start", "data", "--end", "pool1", "-o", tmp_path, "--check", "--json")
    found = json.loads(said.out)
    assert (code, [tensor["name"] for tensor in found["inputs"]]) == (0, ["data"])
    assert found["check"]["passed"]


def test_the_bundle_compares_again(submodel, folder, tmp_path):
    submodel("--start", "conv1", "--end", "sum", "-o", tmp_path)
    (bundle,) = tmp_path.iterdir()
    code = compared(folder, bundle / "dump.prototxt", bundle / "dump_data" / "golden", "again")
    assert code == 1


def test_weights_elsewhere_must_be_named(submodel, folder, tmp_path):
    model, weights = folder / "golden.prototxt", folder / "golden.caffemodel"
    moved = weights.rename(folder / "elsewhere.caffemodel")
    part = ("--start", "conv1", "--end", "pool1", "--model", model, "-o", tmp_path)
    try:
        code, said = submodel(*part)
        assert code == 2
        assert "no weights: conv1" in said.err
        assert "--weights" in said.err
        assert not list(tmp_path.iterdir())
        code, said = submodel(*part, "--weights", moved, "--check")
        assert (code, "gives the golden outputs" in said.out) == (0, True)
    finally:
        moved.rename(weights)


PROGRAM = """
import json, os, pathlib, sys
import numpy as np
bundle = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(bundle))
import replay
told = json.loads((bundle / "manifest.json").read_text())
side = os.environ["DIVERGRAPH_VARIANT"]
feeds = {each["called"]: np.load(bundle / each[side]) for each in told["inputs"]}
made = replay.run_caffe(told, feeds)
for each, value in zip(told["outputs"], made):
    name = pathlib.Path(each["golden"]).name.replace(".golden", "")
    np.save(bundle / "made" / name, value * (1.2 if "conv1" in told["ops"] else 1))
"""


def test_a_users_program_finds_the_smallest_failing_part(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "device.py").write_text(PROGRAM)
    oracle = f"command:{sys.executable} {tmp_path / 'device.py'} {{bundle}}"
    words = ["minimize", "r", "--oracle", oracle, "-o", str(tmp_path / "out"), "--json"]
    assert run([*words, "--store", str(folder / "store")]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ops"] == ["conv1"]
    assert told["parts"][0]["error"] == pytest.approx(0.2, rel=0.01)
    assert (tmp_path / "out").joinpath(*told["bundle"].split("/")[-1:], "dump.prototxt").is_file()
