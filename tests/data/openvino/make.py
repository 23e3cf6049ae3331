"""Makes the files of this folder: ``pip install openvino onnx``, then ``python make.py``.

``net.onnx`` is the original; ``net.xml`` and ``net.bin`` its IR; ``fused.xml`` the runtime model as
the plug-in runs it; ``dump/`` every tensor, and the runtime model of the run that gave them.
``bodies.xml`` has an If, a Loop and a dynamic rank; ``half.xml`` is compressed to float16.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino as ov
from onnx import TensorProto, helper, numpy_helper
from openvino import opset13 as op

HERE = Path(__file__).parent


def original() -> onnx.ModelProto:
    rng = np.random.default_rng(7)
    weights = {
        "w": rng.normal(size=(4, 2, 3, 3)),
        "b": rng.normal(size=4),
        "scale": rng.uniform(0.5, 2, 4),
        "shift": rng.normal(size=4),
        "mean": rng.normal(size=4),
        "var": rng.uniform(0.5, 2, 4),
        "dense": rng.normal(size=(4, 3)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "net/conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"], "bn"),
        helper.make_node("HardSwish", ["n"], ["h"], "swish"),
        helper.make_node("Clip", ["h", "low", "high"], ["r"], "clip"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "dense"], ["m"], "dense"),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    numbers = {name: value.astype(np.float32) for name, value in weights.items()}
    numbers |= {"low": np.array(-0.25, np.float32), "high": np.array(4, np.float32)}
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def bodies() -> ov.Model:
    any_rank = op.parameter(ov.PartialShape.dynamic(), np.float32, name="x,odd")
    cond = op.parameter([], bool, name="cond")
    rows = op.parameter(ov.PartialShape([-1, 3]), np.float32, name="in")
    relu = op.relu(any_rank, name="r")
    relu.output(0).set_names({"r,1", "r2"})
    p1 = op.parameter(ov.PartialShape([-1, 3]), np.float32, name="p1")
    p2 = op.parameter(ov.PartialShape([-1, 3]), np.float32, name="p2")
    then = ov.Model([op.add(p1, np.ones(3, np.float32), name="inner_add")], [p1], "then")
    other = ov.Model([op.negative(p2, name="inner_neg")], [p2], "else")
    choice = op.if_op(cond.output(0))
    choice.set_then_body(then)
    choice.set_else_body(other)
    choice.set_input(rows.output(0), p1, p2)
    chosen = choice.set_output(then.get_results()[0], other.get_results()[0])
    choice.friendly_name = "choice"
    q = op.parameter(ov.PartialShape([-1, 3]), np.float32, name="q")
    count = op.parameter([1], np.int64, name="it")
    doubled = op.multiply(q, np.full(3, 2, np.float32), name="double")
    go_on = op.constant(np.array([True]), name="go")
    body = ov.Model([go_on.output(0), doubled.output(0)], [count, q], "body")
    loop = op.loop(op.constant(np.array(4, np.int64)), op.constant(np.array(True)))
    loop.set_function(body)
    loop.set_special_body_ports([0, 0])
    loop.set_merged_input(q, chosen, doubled.output(0))
    last = loop.get_iter_value(doubled.output(0), -1)
    loop.friendly_name = "rounds"
    return ov.Model([relu.output(0), last], [any_rank, cond, rows], "bodies")


def dump(core: ov.Core, model: ov.Model, folder: Path) -> None:
    """As docs/how-to/capture.md says."""
    folder.mkdir(exist_ok=True)
    left = ("Constant", "Parameter", "Result")
    for node in model.get_ordered_ops():
        if node.get_type_name() not in left:
            model.add_outputs(node.outputs())
    for result in model.get_results():
        port = result.input_value(0)
        result.friendly_name = f"{port.node.friendly_name}:{port.index}"
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ov.serialize(compiled.get_runtime_model(), folder / "runtime.xml")
    x = np.random.default_rng(3).normal(size=(1, 2, 4, 4)).astype(np.float32)
    np.save(folder / "x.npy", x)
    for port, value in compiled([x]).items():
        name = port.node.friendly_name.replace("/", "_").replace(":", ".")
        np.save(folder / f"{name}.npy", value)


def main() -> None:
    core = ov.Core()
    onnx.save_model(original(), str(HERE / "net.onnx"))
    model = core.read_model(HERE / "net.onnx")
    ov.serialize(model, HERE / "net.xml", HERE / "net.bin")
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ov.serialize(compiled.get_runtime_model(), HERE / "fused.xml")
    dump(core, model, HERE / "dump")
    ov.serialize(bodies(), HERE / "bodies.xml", HERE / "bodies.bin")
    ov.save_model(core.read_model(HERE / "net.onnx"), HERE / "half.xml")
    for empty in HERE.rglob("*.bin"):
        if not empty.stat().st_size:  # a runtime model has no weights of its own
            empty.unlink()


main()
