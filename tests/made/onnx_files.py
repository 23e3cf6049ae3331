"""Small ONNX models as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


def written_model(
    path: Path, nodes: Sequence[NodeProto], weights: Mapping[str, Array], shape: Sequence[int]
) -> Path:
    """The model in a file: from ``x`` of that shape to ``y``."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def written_chain(
    path: Path, ops: tuple[str, str], names: str, x: Array, weights: Sequence[Array]
) -> Path:
    """A product with each of *weights* and, behind it, an op that reads its result alone.

    Tensors are ``x0`` to ``xN``; the first of *ops*, called *names* and a number, makes ``pK`` of
    ``xK`` and ``wK``, the second, called by its type in small letters, ``xK+1`` of that.
    """
    product, then = ops
    nodes = []
    for n in range(len(weights)):
        nodes.append(helper.make_node(product, [f"x{n}", f"w{n}"], [f"p{n}"], f"{names}{n}"))
        nodes.append(helper.make_node(then, [f"p{n}"], [f"x{n + 1}"], f"{then.lower()}{n}"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(f"x{len(weights)}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(each, f"w{n}") for n, each in enumerate(weights)],
    )
    opset = [helper.make_opsetid("", 13)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path
