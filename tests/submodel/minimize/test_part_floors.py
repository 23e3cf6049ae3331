"""Floors of parts follow the arithmetic the run was found to be in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.cli.main import run
from divergraph.jobs.progress import NO_PROGRESS
from divergraph.rootcause.arithmetic.contract import Role, format_named
from divergraph.submodel.minimize.oracle import Part
from divergraph.submodel.minimize.part_values import PartValues
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import opened
from graphstore.open_store import open_store

HF32 = format_named("hf32")
DRAW = np.random.default_rng(11)
WEIGHTS = {f"w{k}": (DRAW.standard_normal((24, 24)) / 5).astype(np.float32) for k in range(6)}


def network() -> onnx.ModelProto:
    """Six products with a Tanh behind each."""
    nodes, last = [], "x"
    for place in range(6):
        nodes += [
            helper.make_node("MatMul", [last, f"w{place}"], [f"m{place}"], f"product{place}"),
            helper.make_node("Tanh", [f"m{place}"], [f"t{place}"], f"tanh{place}"),
        ]
        last = f"t{place}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 24]) for n in ("x", last)]
    weights = [numpy_helper.from_array(value, name) for name, value in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_short(model, values):
    """Every tensor of *model* on a device that takes the operands of products as HF32."""
    values = values | {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        feeds = {name: values[name] for name in node.input}
        if node.op_type == "MatMul":
            feeds = {name: HF32.operand(x, -1, Role.WEIGHT) for name, x in feeds.items()}
        ends = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
            for names in (node.input, node.output)
        ]
        one = helper.make_model(
            helper.make_graph([node], "one", *ends),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        )
        session = onnxruntime.InferenceSession(
            one.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (values[node.output[0]],) = session.run(None, feeds)
        if node.name == "product3":
            values[node.output[0]] = values[node.output[0]] * np.float32(1.01)
    return values


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """A run ``hf32``: one product of six is off by a percent, the others are only short."""
    folder = tmp_path_factory.mktemp("short")
    golden = folder / "golden.onnx"
    onnx.save_model(network(), str(golden))
    assert run(["capture", *map(str, [golden, "-o", folder / "golden", "--random", 1])]) == 0
    made = run_short(network(), {"x": np.load(next(folder.glob("golden/x.*.npy")))})
    (folder / "device").mkdir()
    for path in folder.glob("golden/*.npy"):
        name = path.name.partition(".")[0]
        tensor = {"product": "m", "tanh": "t"}.get(name.rstrip("012345"), "")
        value = made[tensor + name[-1]] if tensor else np.load(path)
        np.save(folder / "device" / path.name, value)
    sides = ["--golden", golden, "--golden-dump", folder / "golden", "--device", golden]
    sides += ["--device-dump", folder / "device", "--run", "hf32", "--store", folder / "store"]
    assert run(["compare", *map(str, sides)]) == 1
    return folder


def test_healthy_short_operands_are_no_failure(compared):
    with open_store(str(compared / "store")) as store:
        data = store.run_data("hf32")
    assert data.run.analysis.arithmetic.operands == {"linear layers": "hf32"}
    parts = opened(data, NO_PROGRESS)
    values = PartValues(parts)
    verdicts = {}
    for op in ("product1", "product3"):
        part = Part(parts, (op,)).selection
        feeds = values.feeds(part, Variant.GOLDEN)
        expected = values.expected(part, Variant.GOLDEN, feeds)
        model = network()
        keep = [node for node in model.graph.node if node.name == op]
        del model.graph.node[:]
        model.graph.node.extend(keep)
        made = run_short(model, dict(feeds))
        verdicts[op] = values.judged(part, feeds, expected, made, 3.0)
    assert verdicts["product1"].verdict == "pass"
    assert 1e-4 < verdicts["product1"].error < 2e-3
    assert verdicts["product3"].verdict == "fail"
