"""Models that ONNX Runtime quantised to 8 bits, in the forms its users choose between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from divergraph.execute.stand_ins import make_stand_in
from divergraph.golden_capture import StandIn

Feeds = Mapping[str, Any]
Array = npt.NDArray[Any]


def _symmetric(model: Path, target: Path, feeds: Feeds) -> None:
    """Signed activations around 0, one scale a weight, as ``divergraph capture`` does."""
    make_stand_in(model, StandIn.INT8, target, feeds)


def _by_channel(model: Path, target: Path, feeds: Feeds) -> None:
    """Unsigned activations with a zero point, a scale for each output channel of a weight."""
    quantize_static(
        onnx.load_model(str(model)),
        str(target),
        _Once(feeds),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        extra_options={"QDQKeepRemovableActivations": True},
    )


def _dynamic(model: Path, target: Path, _feeds: Feeds) -> None:
    """Weights in 8 bits, activations quantised as they come, with scales of their values."""
    quantize_dynamic(onnx.load_model(str(model)), str(target), weight_type=QuantType.QInt8)


class _Once(CalibrationDataReader):
    """The feeds, once."""

    def __init__(self, feeds: Feeds) -> None:
        self._left = [dict(feeds)]

    def get_next(self) -> dict[str, Any] | None:
        return self._left.pop() if self._left else None


QUANTISERS: Mapping[str, Callable[[Path, Path, Feeds], None]] = {
    "symmetric": _symmetric,
    "by channel": _by_channel,
    "dynamic": _dynamic,
}
"""By name what writes a model, quantised, to a path; it is calibrated on the feeds."""


@dataclass(frozen=True)
class Quantised:
    """A constant that ``node``, a DequantizeLinear, makes of integers."""

    node: onnx.NodeProto
    integers: Array
    scale: Array
    zero: Array

    def value(self) -> Array:
        """The constant in float32."""
        return np.asarray((self.integers - self._along(self.zero)) * self._along(self.scale))

    def of(self, value: Array, name: str) -> tuple[onnx.NodeProto, list[onnx.TensorProto]]:
        """A node that makes *value* under another *name*, with its constants. What has a scale of
        its own and is the old value times a number keeps its integers; all else is rounded, and
        clipped to their range."""
        scale = self._scaled(value)
        ends = np.iinfo(self.integers.dtype)
        steps = np.rint(value / self._along(scale)) + self._along(self.zero)
        integers = np.clip(steps, ends.min, ends.max).astype(self.integers.dtype)
        names = [f"{name}/{part}" for part in ("integers", "scale", "zero")]
        node = onnx.NodeProto()
        node.CopyFrom(self.node)
        node.name = name
        del node.input[:], node.output[:]
        node.input.extend(names)
        node.output.append(name)
        parts = (integers, scale, self.zero)
        return node, [
            numpy_helper.from_array(part, each) for part, each in zip(parts, names, strict=True)
        ]

    def _scaled(self, value: Array) -> Array:
        before, scale = self.value(), self.scale.copy()
        for slot in range(scale.size if scale.size > 1 else 0):
            old, new = (np.take(each, slot, self._axis) for each in (before, value))
            times = new[old != 0] / old[old != 0]
            if times.size and times[0] > 0 and np.allclose(times, times[0]):
                scale.reshape(-1)[slot] *= times[0]
        return scale

    @property
    def _axis(self) -> int:
        return next((each.i for each in self.node.attribute if each.name == "axis"), 1)

    def _along(self, parameter: Array) -> Array:
        """*parameter*, one number or one a slice, to be broadcast to the integers."""
        wide = parameter.astype(np.float32)
        if wide.size == 1:
            return wide.reshape(())
        shape = [1] * self.integers.ndim
        shape[self._axis if self.integers.ndim > 1 else 0] = wide.size
        return wide.reshape(shape)


def quantised_constants(
    model: onnx.ModelProto, constants: Mapping[str, onnx.TensorProto]
) -> dict[str, Quantised]:
    """What *model* dequantises of *constants*, by the name of the outcome."""
    return {
        node.output[0]: Quantised(node, *(numpy_helper.to_array(constants[n]) for n in node.input))
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
        and len(node.input) == 3
        and all(name in constants for name in node.input)
    }
