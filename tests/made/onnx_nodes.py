"""Short ways to write ONNX nodes, values and branches."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]


def value(name: str, shape=(2, 3), dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attrs):
    return helper.make_node(op_type, inputs.split(" "), outputs.split(" "), name=name, **attrs)


def branch(name: str, captured: str, constant: float):
    number = numpy_helper.from_array(np.array(constant, np.float32), "k")
    return helper.make_graph(
        [node("Mul", f"{captured} k", f"{name}_m"), node("Neg", f"{name}_m", f"{name}_out", "neg")],
        name,
        [],
        [value(f"{name}_out")],
        [number],
    )


def function(name: str, inputs: str, outputs: str, nodes, attributes=(), **more):
    return helper.make_function(
        *("mine", name, inputs.split(" "), outputs.split(" "), nodes, OPSETS), attributes, **more
    )


def model_of(nodes, functions=(), inputs=("x",), outputs=("y",), **more):
    graph = helper.make_graph(nodes, "net", [*map(value, inputs)], [*map(value, outputs)], **more)
    return helper.make_model(graph, functions=list(functions), opset_imports=OPSETS)
