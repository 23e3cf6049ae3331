"""Devices to debug: emulated arithmetics, and what ONNX Runtime really makes of a model.

A device is a model file (its graph, as a compiler would dump it) and a way to run it. The
emulated ones keep the graph: half precision with weights rounded, about two thirds of the
outputs rounded (fusion keeps the others) and reductions 1.5 units of roundoff off;
single precision with reductions off likewise; 8 bits with a quantisation per tensor in
front of each Conv, MatMul and Gemm. The real ones run ONNX Runtime's own float16 and QDQ models
and the graphs its optimiser fuses.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from faults import Array
from onnx import numpy_helper
from op_runner import After, OpRunner, unchanged

from divergraph.execute.stand_ins import make_stand_in
from divergraph.golden_capture import StandIn

HALF, SINGLE = 2.0**-11, 2.0**-24
"""Units of roundoff."""

_REDUCING = frozenset(
    (
        *("Conv", "ConvTranspose", "MatMul", "Gemm", "BatchNormalization", "Softmax", "LSTM"),
        *("GlobalAveragePool", "AveragePool", "ReduceMean", "ReduceSum", "ReduceL2", "Einsum"),
    )
)


@dataclass
class Device:
    """``rounded`` names the tensors that are float16 on the device, though run as float32."""

    name: str
    model: Path
    runner: OpRunner
    rounded: Callable[[str], bool] = field(default=lambda _name: False)

    def dumped(self, name: str, value: Array) -> Array:
        """*value* as the device would dump it; constants are as they are in the model."""
        constant = name in self.runner.constants
        if self.rounded(name) and value.dtype == np.float32 and not constant:
            with np.errstate(over="ignore"):
                return value.astype(np.float16)
        return value


def fp16x(golden: Path, _values: Mapping[str, Array], _folder: Path) -> Device:
    """Half precision, most outputs rounded."""
    runner = OpRunner.of(golden, _noisy(HALF, _rounded))
    for name, value in runner.constants.items():
        # Parameters of a normalisation stay in single precision on real devices, too.
        if value.dtype == np.float32 and float(np.abs(value).max(initial=0)) < 65504:
            runner.constants[name] = _half(value)
    return Device("fp16x", golden, runner, _rounded)


def fp32x(golden: Path, _values: Mapping[str, Array], _folder: Path) -> Device:
    """Single precision with sums in another order."""
    return Device("fp32x", golden, OpRunner.of(golden, _noisy(SINGLE, lambda _name: False)))


def int8(golden: Path, values: Mapping[str, Array], folder: Path) -> Device:
    """Quantised per tensor in front of each Conv, MatMul and Gemm; scales from *values*."""
    model = onnx.load_model(str(golden))
    constants = OpRunner(model).constants
    nodes: list[onnx.NodeProto] = []
    quantised: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type in ("Conv", "MatMul", "Gemm"):
            for place, name in enumerate(node.input[:2]):
                value = constants.get(name, values.get(name))
                if value is None or value.dtype != np.float32:
                    continue
                if name not in quantised:
                    quantised[name] = f"{name}_dequantised"
                    nodes.extend(_quantiser(model.graph, name, value))
                node.input[place] = quantised[name]
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    target = folder / "int8x.onnx"
    onnx.save_model(model, str(target))
    return Device("int8", target, OpRunner(model))


def ort_fp16(golden: Path, values: Mapping[str, Array], folder: Path) -> Device:
    """Converted to float16, run by ONNX Runtime's own kernels."""
    return _stand_in("ort-fp16", StandIn.FP16, golden, values, folder)


def ort_qdq(golden: Path, values: Mapping[str, Array], folder: Path) -> Device:
    """Quantised by ``onnxruntime.quantization``, calibrated on the feeds."""
    return _stand_in("ort-qdq", StandIn.INT8, golden, values, folder)


def ort_extended(golden: Path, values: Mapping[str, Array], folder: Path) -> Device:
    """Fused by ONNX Runtime, level *extended*."""
    return _stand_in("ort-ext", StandIn.OPTIMIZED, golden, values, folder)


def ort_all(golden: Path, _values: Mapping[str, Array], folder: Path) -> Device:
    """Fused and laid out in channel blocks by ONNX Runtime, level *all*."""
    target = folder / "ort-all.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(golden), options, providers=["CPUExecutionProvider"])
    return Device("ort-all", target, OpRunner.of(target))


DEVICES: Mapping[str, Callable[[Path, Mapping[str, Array], Path], Device]] = {
    "fp16x": fp16x,
    "fp32x": fp32x,
    "int8": int8,
    "ort-fp16": ort_fp16,
    "ort-qdq": ort_qdq,
    "ort-ext": ort_extended,
    "ort-all": ort_all,
}
"""Makers of devices: of the golden model's file, its values and a folder for the device's file.

Raise ``ExecutionError`` where a converter refuses the model."""


def _stand_in(
    name: str, kind: StandIn, golden: Path, values: Mapping[str, Array], folder: Path
) -> Device:
    target = folder / f"{name}.onnx"
    inputs = [each.name for each in onnx.load_model(str(golden)).graph.input]
    make_stand_in(golden, kind, target, {each: values[each] for each in inputs})
    return Device(name, target, OpRunner.of(target, unchanged))


def _noisy(unit: float, rounded: Callable[[str], bool]) -> After:
    def after(node: onnx.NodeProto, name: str, value: Array) -> Array:
        if value.dtype != np.float32:
            return value
        if node.op_type in _REDUCING:
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            noise = rng.standard_normal(value.shape, np.float32) * np.float32(1.5 * unit)
            value = value * (1 + noise)
        return _half(value) if rounded(name) else value

    return after


def _rounded(name: str) -> bool:
    return zlib.crc32(f"rounded {name}".encode()) % 100 < 65


def _half(value: Array) -> Array:
    with np.errstate(over="ignore"):
        return value.astype(np.float16).astype(np.float32)


def _quantiser(graph: onnx.GraphProto, name: str, value: Array) -> list[onnx.NodeProto]:
    """The two nodes that make ``{name}_dequantised`` of *name*, its scale from *value*."""
    scale = max(float(np.abs(value).max()) / 127, 1e-12)
    graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), f"{name}_scale"))
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), f"{name}_zero_point"))
    parameters = [f"{name}_scale", f"{name}_zero_point"]
    return [
        onnx.helper.make_node(kind, [source, *parameters], [made], name=made)
        for kind, source, made in (
            ("QuantizeLinear", name, f"{name}_quantised"),
            ("DequantizeLinear", f"{name}_quantised", f"{name}_dequantised"),
        )
    ]
