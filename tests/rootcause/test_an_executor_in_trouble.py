"""An executor that fails at one op: the failure is that op's, all others are judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from failing_executor import FailingFactory
from onnx import TensorProto, helper

from divergraph.comparison import CompareRequest, compare
from divergraph.execute import installed
from graphstore.model import TensorIO, Verdict

W = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
OPS = (
    ("MatMul", ["x", "w"], {}),
    ("Relu", ["t0"], {}),
    ("Exp", ["t1"], {}),
    ("Transpose", ["t2"], {"perm": [1, 0]}),
    ("Softmax", ["t3"], {}),
    ("Add", ["t4", "t1"], {}),
    ("ReduceMean", ["t5"], {}),
    ("Cast", ["t6"], {"to": TensorProto.FLOAT}),
)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of eight kinds of op, with equal dumps of both sides."""
    folder = tmp_path_factory.mktemp("sides")
    nodes = [
        helper.make_node(kind, inputs, [f"t{number}"], name=f"t{number}", **attributes)
        for number, (kind, inputs, attributes) in enumerate(OPS)
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "t7")]
    weights = [onnx.numpy_helper.from_array(W, "w")]
    graph = helper.make_graph(nodes, "kinds", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    for number in range(len(OPS) - 1):
        model.graph.output.append(helper.make_tensor_value_info(f"t{number}", 1, None))
    onnx.save(model, str(folder / "kinds.onnx"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    names = [each.name for each in model.graph.output]
    for side in ("golden", "device"):
        (folder / side).mkdir()
        for name, value in zip(["x", *names], [x, *session.run(None, {"x": x})], strict=True):
            np.save(folder / side / f"{name}.npy", value)
    return folder


@pytest.mark.parametrize("fails", [f"t{number}" for number in range(len(OPS))])
def test_the_failure_is_that_ops_alone(sides, monkeypatch, fails):
    monkeypatch.setattr(installed, "factory_for", lambda *_: FailingFactory(fails))
    model = sides / "kinds.onnx"
    data = compare(CompareRequest(model, sides / "golden", model, sides / "device"))
    splits = {item.op: item.split for item in data.comparisons if item.io is TensorIO.OUTPUT}
    assert [op for op, split in splits.items() if split.failure] == [fails]
    assert f"{fails} holds texts" in splits[fails].failure
    assert data.run.verdict is Verdict.CLEAN
