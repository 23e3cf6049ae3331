"""Models in float16 round behind every op, as a device of that precision does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.execute.contract import Alterable, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from importers.registry import read_graph

X = np.array([0.1, 0.5, 0.7, 0.9], np.float16)


def absorbing(path: Path, kind: int = TensorProto.FLOAT16) -> Path:
    """``(x + 65504 - 65504) * 1``: in half precision nothing of x is left behind the Add."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    nodes = [
        helper.make_node("Add", ["x", "large"], ["sum"], name="add"),
        helper.make_node("Sub", ["sum", "large"], ["difference"], name="sub"),
        helper.make_node("Mul", ["difference", "one"], ["y"], name="mul"),
    ]
    weights = [
        numpy_helper.from_array(np.array([65504], dtype), "large"),
        numpy_helper.from_array(np.array([1], dtype), "one"),
    ]
    given = helper.make_tensor_value_info("x", kind, [4])
    made = helper.make_tensor_value_info("y", kind, [4])
    graph = helper.make_graph(nodes, "absorbing", [given], [made], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


@pytest.mark.parametrize("asked", [("sum", "difference", "y"), ("y",)])
def test_an_op_reads_what_the_op_before_it_gives(tmp_path: Path, asked: tuple[str, ...]) -> None:
    model = absorbing(tmp_path / "m.onnx")
    executor = open_executor(model, read_graph(model))
    values = dict(executor.run({"x": X}, asked))
    executor.close()
    assert np.all(values["y"] == 0)


def test_pieces_round_between_their_ops(tmp_path: Path) -> None:
    model = absorbing(tmp_path / "m.onnx")
    executor = open_executor(model, read_graph(model))
    piece = RunnableSubgraph("all", ("x",), ("y",))
    (ran,) = executor.run_subgraphs([piece], lambda _: {"x": X})
    assert np.all(ran.values["y"] == 0)
    assert isinstance(executor, Alterable)
    altered = executor.run_altered(piece, {"x": X}, "y", {})
    assert altered is not None
    assert np.all(altered["y"] == 0)
    executor.close()


def test_the_stand_in_is_a_chain_of_half_precision(tmp_path: Path) -> None:
    model = absorbing(tmp_path / "m.onnx", TensorProto.FLOAT)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    taken = CaptureRequest(model, tmp_path / "fp16", {"x": tmp_path / "x.npy"}, device=StandIn.FP16)
    capture(taken)
    (made,) = (tmp_path / "fp16").glob("sub.*.npy")
    assert np.all(np.load(made) == 0)
