"""One convolution, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]


def run_conv(values: Mapping[str, Array], attrs: Mapping[str, Any]) -> Array:
    """What ONNX Runtime gives for a Conv of these inputs and attributes."""
    node = helper.make_node("Conv", list(values), ["y"], **attrs)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape)
        for name, each in values.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "g", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, dict(values))[0])
