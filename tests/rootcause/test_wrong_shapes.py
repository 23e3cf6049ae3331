"""Outputs of another shape: the op that made it is guilty, what follows is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.model import OpState, Verdict

Array = np.ndarray
SHAPE = (1, 3, 9, 9)
LONG = np.iinfo(np.int64).max


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def node(kind: str, *inputs: str, **attrs: object) -> NodeProto:
    """The op under test: it reads ``c``, of 4 channels and 9x9, and makes ``b``."""
    return helper.make_node(kind, ["c", *inputs], ["b"], name="op", **attrs)


def net(path: Path, op: NodeProto, **constants: Array) -> Path:
    """A convolution, *op*, and ops that take any shape."""
    kernel = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        op,
        helper.make_node("Sigmoid", ["b"], ["s"], name="sigmoid"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], name="mean"),
    ]
    weights = {"w": kernel, **constants}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *SHAPE[1:]])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def image(items: int = 1) -> Array:
    shape = (items, *SHAPE[1:])
    return np.random.default_rng(items).uniform(-1, 1, shape).astype(np.float32)


class Runs:
    """A golden run and one of the device, whose graph is golden's."""

    def __init__(self, folder: Path, golden: Path, ran: Path, fed: Array | None = None) -> None:
        self.folder, self.golden = folder, golden
        for side, model, value in (("golden", golden, image()), ("device", ran, fed)):
            np.save(folder / f"{side}.npy", image() if value is None else value)
            capture(CaptureRequest(model, folder / side, {"x": folder / f"{side}.npy"}))

    def dumped(self, op: str) -> Path:
        (found,) = self.folder.glob(f"device/{op}.*.npy")
        return found

    def compared(self) -> RunData:
        golden, device = self.folder / "golden", self.folder / "device"
        return compare(CompareRequest(self.golden, golden, self.golden, device))


def runs(folder: Path, right: NodeProto, wrong: NodeProto, *constants: dict[str, Array]) -> Runs:
    """The runs of a net with *right* and with *wrong*; constants are those of both sides."""
    first, second = constants or ({}, {})
    golden = net(folder / "golden.onnx", right, **first)
    return Runs(folder, golden, net(folder / "ran.onnx", wrong, **second))


def causes(data: RunData) -> list[tuple[str, str]]:
    return [(origin.op, origin.cause or "") for origin in data.origins]


POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
CUT = {"from": ints(0, 0), "axes": ints(2, 3)}
CASES = [
    (
        node("ReduceL1", axes=[1]),
        node("ReduceL1", axes=[0, 1, 2, 3]),
        ({}, {}),
        "reduced over all axes in place of axis 1",
    ),
    (
        node("MaxPool", ceil_mode=1, **POOL),
        node("MaxPool", ceil_mode=0, **POOL),
        ({}, {}),
        "ceil_mode 0 in place of 1",
    ),
    (
        node("AveragePool", pads=[1, 1, 1, 1], **POOL),
        node("AveragePool", pads=[0, 0, 0, 0], **POOL),
        ({}, {}),
        "pads [0, 0, 0, 0] in place of [1, 1, 1, 1]",
    ),
    (
        node("Slice", "from", "to", "axes"),
        node("Slice", "from", "to", "axes"),
        ({**CUT, "to": ints(6, 6)}, {**CUT, "to": ints(LONG, 6)}),
        "in place of [6, 6]",
    ),
    (
        node("Tile", "repeats"),
        node("Tile", "repeats"),
        ({"repeats": ints(1, 1, 2, 3)}, {"repeats": ints(1, 1, 2, 2)}),
        "with repeats [1, 1, 2, 2] in place of [1, 1, 2, 3]",
    ),
    (node("Concat", "c", axis=1), node("Concat", "c", axis=2), ({}, {}), "with axis 2 in place"),
    (node("MaxPool", **POOL), node("Identity"), ({}, {}), "its operand c holds"),
]


@pytest.mark.parametrize(("right", "wrong", "constants", "words"), CASES)
def test_the_op_that_made_another_shape_is_named_with_what_it_did(
    tmp_path: Path,
    right: NodeProto,
    wrong: NodeProto,
    constants: Sequence[dict[str, Array]],
    words: str,
) -> None:
    data = runs(tmp_path, right, wrong, *constants).compared()
    ((op, cause),) = causes(data)
    assert op == "op"
    assert words in cause
    assert "its shape is" in cause
    assert data.states["sigmoid"] is OpState.INHERITED
    assert data.run.counts.not_compared == 0


def test_what_reads_another_shape_is_judged_by_itself(tmp_path: Path) -> None:
    made = runs(tmp_path, node("MaxPool", ceil_mode=1, **POOL), node("MaxPool", **POOL))
    value = np.load(made.dumped("sigmoid"))
    np.save(made.dumped("sigmoid"), value * np.float32(1.2))
    made.dumped("mean").unlink()  # it was made of the values as they were
    assert [op for op, _ in causes(made.compared())] == ["op", "sigmoid"]


def test_an_op_that_the_dump_ends_with_is_named(tmp_path: Path) -> None:
    made = runs(tmp_path, node("MaxPool", ceil_mode=1, **POOL), node("MaxPool", **POOL))
    for op in ("sigmoid", "mean"):
        made.dumped(op).unlink()
    ((op, cause),) = causes(made.compared())
    assert op == "op"
    assert "ceil_mode" in cause


def test_the_op_before_need_not_be_dumped(tmp_path: Path) -> None:
    made = runs(tmp_path, node("ReduceMax", axes=[1]), node("ReduceMax", axes=[2, 3]))
    made.dumped("conv").unlink()
    ((op, cause),) = causes(made.compared())
    assert op == "op"
    assert "reduced over axes [2, 3] in place of axis 1" in cause


def test_an_op_inside_of_a_group_is_named_though_the_output_has_the_right_shape(
    tmp_path: Path,
) -> None:
    """A mean over all positions hides how many there were."""
    made = runs(tmp_path, node("MaxPool", ceil_mode=1, **POOL), node("MaxPool", **POOL))
    for op in ("op", "sigmoid"):
        made.dumped(op).unlink()
    ((end, cause),) = causes(made.compared())
    assert end == "mean"
    assert "MaxPool op gives with ceil_mode 0 in place of 1" in cause


REAL = 'attr { key: "T" value { type: DT_FLOAT } }'
MEAN = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } dim { size: 5 } dim { size: 3 } } } } }
node { name: "tanh" op: "Tanh" input: "x" REAL }
node { name: "axes" op: "Const" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value"
  value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: AXIS } } } }
node { name: "op" op: "Mean" input: "tanh" input: "axes" REAL
  attr { key: "Tidx" value { type: DT_INT32 } } attr { key: "keep_dims" value { b: true } } }
node { name: "neg" op: "Neg" input: "op" REAL }
"""


def test_a_reduction_of_tensorflow_is_named_alike(tmp_path: Path) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, (2, 5, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for side, axis in (("golden", 1), ("device", 2)):
        model = tmp_path / f"{side}.pbtxt"
        model.write_text(MEAN.replace("REAL", REAL).replace("AXIS", str(axis)))
        capture(CaptureRequest(model, tmp_path / side, {"x": tmp_path / "x.npy"}))
    golden = tmp_path / "golden.pbtxt"
    data = compare(CompareRequest(golden, tmp_path / "golden", golden, tmp_path / "device"))
    ((op, cause),) = causes(data)
    assert op == "op"
    assert cause.endswith("reduced over axis 2 in place of axis 1")


def test_axes_of_one_slice_that_a_dump_lacks_are_no_fault(tmp_path: Path) -> None:
    right = node("ReduceMax", axes=[1])
    made = runs(tmp_path, right, right)
    value = np.load(made.dumped("op"))
    np.save(made.dumped("op"), value.reshape(9, 9))
    assert made.compared().run.verdict is Verdict.CLEAN


def test_an_axis_that_was_lost_on_the_device_is_one(tmp_path: Path) -> None:
    """Without its axis a mean of rows is taken off column by column."""

    def model(name: str, keepdims: int) -> Path:
        nodes = [
            helper.make_node("Tanh", ["x"], ["t"], name="tanh"),
            helper.make_node("ReduceMean", ["t"], ["m"], name="op", axes=[1], keepdims=keepdims),
            helper.make_node("Sub", ["t", "m"], ["y"], name="sub"),
        ]
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 6])
        graph = helper.make_graph(nodes, "rows", [given], [onnx.ValueInfoProto(name="y")])
        opset = helper.make_opsetid("", 17)
        made = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        onnx.save_model(made, str(tmp_path / name))
        return tmp_path / name

    np.save(tmp_path / "x.npy", image()[0, 0, :6, :6])
    golden, ran = model("golden.onnx", 1), model("ran.onnx", 0)
    for side, which in (("golden", golden), ("device", ran)):
        capture(CaptureRequest(which, tmp_path / side, {"x": tmp_path / "x.npy"}))
    data = compare(CompareRequest(golden, tmp_path / "golden", golden, tmp_path / "device"))
    ((op, cause),) = causes(data)
    assert op == "op"
    assert cause.startswith("its shape is 6 where 6x1 is right")


@pytest.mark.parametrize("dumped", [True, False])
def test_another_batch_is_no_fault_of_an_op(tmp_path: Path, *, dumped: bool) -> None:
    golden = net(tmp_path / "golden.onnx", node("MaxPool", **POOL))
    made = Runs(tmp_path, golden, golden, image(2))
    if not dumped:
        made.dumped("x").unlink()
    assert not made.compared().origins


def test_a_shape_that_follows_from_values_is_no_fault(tmp_path: Path) -> None:
    """The device rounds: other values are past the limit, and the shape is right for them."""
    golden = net(tmp_path / "golden.onnx", node("Relu"))
    model = onnx.load(str(golden))
    del model.graph.node[2:]
    model.graph.node.append(helper.make_node("NonZero", ["b"], ["y"], name="where"))
    onnx.save(model, str(golden))
    made = Runs(tmp_path, golden, golden)
    value = np.load(made.dumped("op"))
    smallest = value[value > 0].min()
    np.save(made.dumped("op"), np.where(value <= smallest, np.float32(0), value))
    where = np.load(made.dumped("where"))
    np.save(made.dumped("where"), np.array(np.nonzero(np.load(made.dumped("op")))))
    assert where.shape != np.load(made.dumped("where")).shape
    data = made.compared()
    assert "where" not in [origin.op for origin in data.origins]
