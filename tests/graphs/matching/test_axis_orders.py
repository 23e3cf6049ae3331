"""TensorFlow computes NHWC, ONNX NCHW: tensors of one name are compared in one order."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, save_model

from divergraph.comparison import CompareRequest, compare
from divergraph.rootcause.options import MethodChoice
from divergraph.values.closeness import distance, only_order
from divergraph.values.zero_points import moved_by_128
from graphstore.model import OpState, Verdict

TO_DEVICE = (0, 3, 1, 2)
CHAIN = ("conv", "relu", "pool", "sigmoid")
GRAPHDEF = """
node { name: "x" op: "Placeholder" }
node { name: "conv" op: "Conv2D" input: "x" }
node { name: "relu" op: "Relu" input: "conv" }
node { name: "pool" op: "MaxPool" input: "relu" }
node { name: "sigmoid" op: "Sigmoid" input: "pool" }
"""


class Case:
    """A chain of ops on both sides; *shape* is the golden one, N, H, W, C."""

    def __init__(self, folder, shape):
        self.folder = folder
        (folder / "golden.pbtxt").write_text(GRAPHDEF)
        names = ["t", *CHAIN, "back"]
        kinds = ["Transpose", "Conv", "Relu", "MaxPool", "Sigmoid", "Transpose"]
        inputs = ["x:0", "t_out", *(f"{name}:0" for name in CHAIN)]
        outputs = ["t_out", *(f"{name}:0" for name in CHAIN), "y"]
        attrs = [{"perm": TO_DEVICE}, {}, {}, {"kernel_shape": [1, 1]}, {}, {"perm": (0, 2, 3, 1)}]
        nodes = [
            helper.make_node(kind, [taken] + ["w"] * (kind == "Conv"), [made], name, **more)
            for name, kind, taken, made, more in zip(
                names, kinds, inputs, outputs, attrs, strict=True
            )
        ]
        given = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x:0", "w")
        ]
        made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        model = helper.make_model(helper.make_graph(nodes, "net", given, [made]))
        save_model(model, str(folder / "device.onnx"))
        rng = np.random.default_rng(7)
        self.golden = {name: rng.standard_normal(shape) for name in ("x", *CHAIN)}
        self.device = {name: self.golden[name].transpose(TO_DEVICE) for name in CHAIN}
        self.device["t"] = self.golden["x"].transpose(TO_DEVICE)
        self.device["back"] = self.golden["sigmoid"]

    def break_from(self, first):
        """Other values from the op *first* on."""
        rng = np.random.default_rng(8)
        for name in CHAIN[CHAIN.index(first) :]:
            self.device[name] = rng.standard_normal(self.device[name].shape)
        self.device["back"] = self.device["sigmoid"].transpose(0, 2, 3, 1)

    def compared(self):
        for side in ("golden", "device"):
            (self.folder / side).mkdir()
            for name, value in getattr(self, side).items():
                np.save(self.folder / side / f"{name}.0.1700000000000000.npy", value)
        at = self.folder
        # The values are made up: no op computes them from those before.
        return compare(
            CompareRequest(
                at / "golden.pbtxt",
                at / "golden",
                at / "device.onnx",
                at / "device",
                method=MethodChoice.THRESHOLDS,
            )
        )


SHAPES = pytest.mark.parametrize("shape", [(2, 5, 6, 3), (2, 4, 4, 4), (1, 1, 1, 8)], ids=str)


@SHAPES
def test_every_tensor_equals_its_counterpart(tmp_path, shape):
    data = Case(tmp_path, shape).compared()
    assert data.run.verdict is Verdict.CLEAN
    assert data.run.counts.compared == 6


@SHAPES
@pytest.mark.parametrize("first", CHAIN)
def test_a_fault_is_found_where_it_starts(tmp_path, shape, first):
    case = Case(tmp_path, shape)
    case.break_from(first)
    data = case.compared()
    assert [origin.op for origin in data.origins] == [first]
    assert data.states["t"] is OpState.CLEAN
    right = {"t", *CHAIN[: CHAIN.index(first)]}
    measured = {item.op: item for item in data.comparisons if item.metrics is not None}
    assert all(measured[name].metrics.relative_euclidean_distance < 1e-6 for name in right)
    # what follows is compared in its own order: the added Transpose undoes that of the rest
    errors = [measured[name].metrics.max_absolute_error for name in ("sigmoid", "back")]
    assert errors[0] == pytest.approx(errors[1])


def test_the_notes_say_so(tmp_path):
    data = Case(tmp_path, (2, 4, 4, 4)).compared()
    assert any("4 by name, with their axes in another order" in note for note in data.run.warnings)


def without_bias_and_with(folder, golden_name, dumped, bias):
    """A device whose convolution adds its bias in an op of its own; of it *dumped* is dumped."""
    golden = f"""node {{ name: "x" op: "Placeholder" }}
        node {{ name: "{golden_name}" op: "Conv" input: "x" }}"""
    device = """node { name: "x" op: "Placeholder" } node { name: "a" op: "Conv2D" input: "x" }
        node { name: "b" op: "BiasAdd" input: "a" }"""
    value = np.random.default_rng(3).standard_normal((2, 5, 5, 3))
    whole = value * 2 + bias
    values = {"x": value, "a": value * 2, "b": whole, golden_name: whole}
    for side, text, names in (
        ("golden", golden, ("x", golden_name)),
        ("device", device, dumped),
    ):
        (folder / f"{side}.pbtxt").write_text(text)
        (folder / side).mkdir()
        for name in names:
            np.save(folder / side / f"{name}.0.1700000000000000.npy", values[name])
    return compare(
        CompareRequest(
            folder / "golden.pbtxt", folder / "golden", folder / "device.pbtxt", folder / "device"
        )
    )


@pytest.mark.parametrize(
    ("golden_name", "dumped", "bias", "compared"),
    [
        ("both", ("x", "a", "b"), 0.2, ["x", "b"]),
        ("b", ("x", "a"), 0.2, ["x"]),
        ("b", ("x", "a", "b"), 0.006, ["x", "b"]),
    ],
    ids=["its values are nearer", "its name says so, though it is not dumped", "small bias"],
)
def test_a_conv_without_bias_is_not_taken_for_the_one_with_it(
    tmp_path, golden_name, dumped, bias, compared
):
    """Its values are near, but the Add behind it is the counterpart."""
    data = without_bias_and_with(tmp_path, golden_name, dumped, bias)
    assert data.run.verdict is Verdict.CLEAN
    assert [item.op for item in data.comparisons if item.metrics is not None] == compared


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 4, 4)], ids=str)
def test_names_do_not_tell_the_order_of_what_is_not_dumped(tmp_path, shape):
    """An optimiser computes "c" with its channels last, and turns its values back."""
    value = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    off = (value * 1.03).astype(np.float32)
    nodes = {
        "golden": [
            helper.make_node("Abs", ["x"], ["c_out"], "c"),
            helper.make_node("Relu", ["c_out"], ["y"], "r"),
        ],
        "device": [
            helper.make_node("Transpose", ["x"], ["there"], "there", perm=[0, 2, 1]),
            helper.make_node("Abs", ["there"], ["last"], "c"),
            helper.make_node("Transpose", ["last"], ["first"], "again", perm=[0, 2, 1]),
            helper.make_node("Relu", ["first"], ["y"], "r"),
        ],
    }
    dumps = {
        "golden": {"c": np.abs(value), "r": np.abs(value)},
        "device": {"again": np.abs(off), "r": np.abs(off)},
    }
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    for side, made in nodes.items():
        (tmp_path / side).mkdir()
        graph = helper.make_graph(made, "net", ends[:1], ends[1:])
        save_model(helper.make_model(graph), str(tmp_path / f"{side}.onnx"))
        for name, values in {"x": value, **dumps[side]}.items():
            np.save(tmp_path / side / f"{name}.0.1700000000000000.npy", values)
    sides = [tmp_path / name for name in ("golden.onnx", "golden", "device.onnx", "device")]
    (turned,) = [item for item in compare(CompareRequest(*sides)).comparisons if item.op == "again"]
    assert turned.metrics is not None
    assert turned.metrics.relative_euclidean_distance == pytest.approx(0.03, rel=0.01)


@pytest.mark.parametrize(
    ("device", "golden", "axes"),
    [
        ((1, 30, 80, 64), (1, 64, 30, 80), (0, 3, 1, 2)),
        ((1, 5, 1, 3), (1, 3, 5, 1), (0, 3, 1, 2)),
        ((2, 4, 4, 3), (2, 3, 4, 4), None),
        ((2, 6), (3, 4), None),
    ],
)
def test_sizes_alone_tell_the_order_where_no_two_are_equal(device, golden, axes):
    found = only_order(device, golden)
    assert (found and found.block) == (None if axes is None else 0)
    assert axes is None or np.zeros(device).transpose(found.axes).shape == golden


def test_bytes_about_one_zero_point_are_not_near_for_that():
    rng = np.random.default_rng(6)
    one, other = rng.normal(128, 20, (2, 500)).clip(0, 255).astype(np.uint8)
    assert distance(one, other) > 1
    assert distance(one, one) == 0
    assert distance(one, moved_by_128(one)) == 0.0
    assert distance(one, moved_by_128(other)) > 0.5
