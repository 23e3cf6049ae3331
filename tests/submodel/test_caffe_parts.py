"""Parts of Caffe nets as nets of their own, run by OpenCV's importer."""

from __future__ import annotations

import random

import numpy as np
import pytest

from divergraph.submodel.export.caffe_export import write_caffe_part
from divergraph.submodel.export.contract import PartSource
from divergraph.submodel.replay import replay
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import RefusalRule, SelectionRequest, TensorFacts
from graphstore.errors import InputError
from graphstore.model import DType
from importers.proto.wire import BLOCK, varint_bytes
from importers.registry import read_graph

cv2 = pytest.importorskip("cv2")
RNG = np.random.default_rng(3)

NET = """
name: "small"
input: "data"
input_shape { dim: 1 dim: 3 dim: 12 dim: 12 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } include { phase: TEST } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1"
  batch_norm_param { use_global_stats: true } }
layer { name: "scale1" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "halves" type: "Slice" bottom: "pool1" top: "left" top: "right"
  slice_param { axis: 1 slice_point: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "left" bottom: "right" top: "sum"
  eltwise_param { operation: SUM } }
layer { name: "both" type: "Concat" bottom: "sum" bottom: "right" top: "both" }
layer { name: "up" type: "Deconvolution" bottom: "both" top: "up"
  convolution_param { num_output: 2 kernel_size: 2 stride: 2 } }
layer { name: "tanh" type: "TanH" bottom: "up" top: "up" }
layer { name: "loss" type: "Silence" bottom: "up" include { phase: TRAIN } }
layer { name: "drop" type: "Dropout" bottom: "up" top: "up" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc" type: "InnerProduct" bottom: "up" top: "fc"
  inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""
WEIGHTS = {
    "conv1": [(4, 3, 3, 3), (4,)],
    "bn1": [(4,), (4,), (1,)],
    "scale1": [(4,), (4,)],
    "up": [(4, 2, 2, 2), (2,)],
    "fc": [(5, 288), (5,)],
}


def field(number, content):
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def blob(value):
    dims = field(1, b"".join(varint_bytes(size) for size in value.shape))
    return field(7, dims) + field(5, value.astype("<f4").tobytes())


def weights_file(path, *, old=False):
    content = field(1, b"small")
    for name, shapes in WEIGHTS.items():
        values = [np.abs(RNG.standard_normal(shape)) * 0.3 + 0.1 for shape in shapes]
        if name == "bn1":
            values[2] = np.ones(1)
        inner = field(4 if old else 1, name.encode())
        inner += b"".join(field(6 if old else 7, blob(value)) for value in values)
        content += field(2 if old else 100, inner)
    path.write_bytes(content)
    return path


class Cutter:
    """A net with the values OpenCV computes for its tensors."""

    def __init__(self, model, weights, feeds):
        self.model, self.weights = model, weights
        self.graph = read_graph(model, {"weights": str(weights)})
        net = cv2.dnn.readNetFromCaffe(str(model), str(weights))
        net.enableFusion(False)
        for name, value in feeds.items():
            net.setInput(value, name)
        self.refs = {
            tensor.name: (op.name, port)
            for op in self.graph.ops
            for port, tensor in enumerate(op.outputs)
            if op.type != "Input"
        }
        self.values = {
            name: net.forwardAndRetrieve([layer])[0][port].copy()
            for name, (layer, port) in self.refs.items()
        }
        for tensor in self.graph.inputs:
            self.values[tensor.name] = feeds[tensor.name.partition("@")[0]]
            self.values[f"{tensor.name}@input"] = feeds[tensor.name.partition("@")[0]]
        self.ops = self.graph.op_index()
        self.selector = Selector(self.graph, self.facts)

    def facts(self, key):
        name = key if isinstance(key, str) else self.ops[key.op].outputs[key.port].name
        found = self.values.get(name)
        return TensorFacts(DType.FLOAT32, None if found is None else found.shape, found is not None)

    def part(self, starts, ends, **wish):
        found = self.selector.between(starts, ends, SelectionRequest(**wish))
        assert not found.refused, found.refused
        return found

    def write(self, part, folder, weights=None):
        folder.mkdir(exist_ok=True)
        source = PartSource(self.graph, self.model, weights, {})
        return write_caffe_part(source, part, folder)

    def check(self, part, written, monkeypatch):
        """The part gives what the whole gives; the names of what was compared."""
        monkeypatch.setattr(replay, "HERE", written.files[0].parent)
        called = [written.names.get(tensor.name, tensor.name) for tensor in part.outputs]
        feeds = {
            written.names.get(tensor.name, tensor.name): self.values[tensor.name]
            for tensor in part.inputs
        }
        files = [path.name for path in written.files]
        outputs = [{"called": name} for name in called]
        made = replay.run_caffe({"files": files, "outputs": outputs}, feeds)
        for tensor, value in zip(part.outputs, made, strict=True):
            assert replay.apart(value, self.values[tensor.name]) <= 1e-5, tensor.name
        return [tensor.name for tensor in part.outputs]


@pytest.fixture
def cutter(tmp_path):
    model = tmp_path / "net.prototxt"
    model.write_text(NET)
    weights = weights_file(tmp_path / "net.caffemodel")
    return Cutter(model, weights, {"data": RNG.standard_normal((1, 3, 12, 12)).astype("f4")})


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        (["conv1"], ["prob"]),
        (["conv1"], ["bn1"]),
        (["bn1"], ["scale1"]),
        (["relu1"], ["relu1"]),
        (["scale1"], ["pool1"]),
        (["halves"], ["both"]),
        (["sum"], ["tanh"]),
        (["up"], ["fc"]),
        (["drop"], ["prob"]),
    ],
)
def test_parts_of_a_net_give_the_values_of_the_whole(cutter, tmp_path, monkeypatch, starts, ends):
    part = cutter.part(starts, ends)
    written = cutter.write(part, tmp_path / "out")
    assert cutter.check(part, written, monkeypatch)


def test_every_layer_of_a_net_with_in_place_layers_can_be_asked_for(cutter, tmp_path, monkeypatch):
    part = cutter.part(["conv1"], ["conv1", "bn1", "scale1", "relu1", "pool1"], all_outputs=True)
    written = cutter.write(part, tmp_path / "out")
    assert cutter.check(part, written, monkeypatch) == [
        *("conv1@conv1", "conv1@bn1", "conv1@scale1", "conv1", "pool1")
    ]
    assert "wrote over what they read" in written.notes[0]


def test_what_enters_is_an_input_layer_named_as_the_vendors_tool_does(cutter, tmp_path):
    written = cutter.write(cutter.part(["pool1"], ["halves"]), tmp_path / "out")
    text = written.files[0].read_text()
    assert 'name: "pool1_input_0"\n  type: "Input"\n  top: "conv1"\n' in text
    assert written.added == (
        'Add Layer Into Prototxt:\nname: "pool1_input_0"\ntype: "Input"\ntop: "conv1"\n'
        "input_param {\n  shape {\n    dim: 1\n    dim: 4\n    dim: 12\n    dim: 12\n  }\n}",
    )


def test_the_written_net_is_read_again_with_only_its_own_weights(cutter, tmp_path):
    written = cutter.write(cutter.part(["sum"], ["up"]), tmp_path / "out")
    again = read_graph(written.files[0], {"weights": str(written.files[1])})
    assert [op.type for op in again.ops] == [
        *("Input", "Input", "Eltwise", "Concat", "Deconvolution")
    ]
    assert {constant.tensor.name for constant in again.constants} == {"up/blobs/0", "up/blobs/1"}


def test_a_net_of_the_old_form_is_written_in_todays(tmp_path, monkeypatch):
    model = tmp_path / "net.prototxt"
    model.write_text("""
name: "old" input: "data" input_dim: 1 input_dim: 3 input_dim: 12 input_dim: 12
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1 weight_decay: 0
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "pool1" type: POOLING bottom: "conv1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
""")
    weights = weights_file(tmp_path / "net.caffemodel", old=True)
    given = RNG.standard_normal((1, 3, 12, 12)).astype("f4")
    cutter = Cutter(model, weights, {"data": given})
    part = cutter.part(["conv1"], ["pool1"])
    written = cutter.write(part, tmp_path / "out")
    text = written.files[0].read_text()
    assert "layers" not in text
    assert "blobs_lr" not in text
    assert cutter.check(part, written, monkeypatch) == ["pool1"]


def test_hostile_names_stay_names(tmp_path, monkeypatch):
    names = {"conv1": "../x", "pool1": "ü" * 3, "sum": "a" * 300, "both": 'say \\"so\\"'}
    text = NET
    for name, other in names.items():
        text = text.replace(f'"{name}"', f'"{other}"')
    model = tmp_path / "net.prototxt"
    model.write_text(text)
    monkeypatch.setitem(WEIGHTS, "../x", WEIGHTS["conv1"])
    weights = weights_file(tmp_path / "net.caffemodel")
    cutter = Cutter(model, weights, {"data": RNG.standard_normal((1, 3, 12, 12)).astype("f4")})
    part = cutter.part(["../x"], ["up"])
    written = cutter.write(part, tmp_path / "out")
    assert cutter.check(part, written, monkeypatch) == ["up@up"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("dump.caffemodel", "dump.prototxt")
    ]


def test_missing_weights_are_said(cutter, tmp_path):
    part = cutter.part(["conv1"], ["pool1"])
    empty = tmp_path / "empty.caffemodel"
    empty.write_bytes(field(1, b"small") + field(100, field(1, b"pool1") + field(2, b"Pooling")))
    with pytest.raises(InputError, match="3 layers have no weights: conv1"):
        cutter.write(part, tmp_path / "out", empty)


def test_another_net_is_noticed(cutter, tmp_path):
    part = cutter.part(["conv1"], ["pool1"])
    cutter.model.write_text(NET.replace('"pool1" type: "Pooling"', '"pool1" type: "LRN"'))
    with pytest.raises(InputError, match="not the one the run was made with"):
        cutter.write(part, tmp_path / "out")


def test_ends_before_starts_are_refused(cutter):
    refused = cutter.selector.between(["pool1"], ["conv1"]).refused
    assert refused[0].rule is RefusalRule.TURNED_ROUND


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mtcnn_det1", "mtcnn_det2"])
def test_random_parts_of_real_nets(shared_data, tmp_path, monkeypatch, name):
    model = shared_data / "caffe" / f"{name}.prototxt"
    graph = read_graph(model)
    given = {
        tensor.name.partition("@")[0]: RNG.standard_normal(tensor.shape).astype("f4")
        for tensor in graph.inputs
    }
    cutter = Cutter(model, model.with_suffix(".caffemodel"), given)
    rng = random.Random(4)
    ids = [op.id for op in graph.ops]
    compared = 0
    for _ in range(40):
        start, end = sorted(rng.sample(range(len(ids)), 2))
        part = cutter.selector.between([ids[start]], [ids[end]])
        if not part.refused:
            written = cutter.write(part, tmp_path / "out")
            compared += len(cutter.check(part, written, monkeypatch))
    assert compared >= 20
