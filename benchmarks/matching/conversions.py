"""What real converters and optimisers make of an ONNX model: the device models of pairs.

All keep what is computed. In float32 tensors that stand for each other have equal values; in
float16 or int8 names tell the truth (``by_name``), as both keep them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
import onnxoptimizer
import onnxruntime
import onnxsim
from onnxruntime import quantization
from onnxruntime.transformers import float16, optimizer

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A way to write a model anew; *write* takes the model, the target and values to feed."""

    name: str
    write: Callable[[Path, Path, Feeds], None]
    by_name: bool = False


def _level(level: str) -> Callable[[Path, Path, Feeds], None]:
    def write(model: Path, target: Path, _: Feeds) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        options.optimized_model_filepath = str(target)
        onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    return write


def _transformers(kind: str) -> Callable[[Path, Path, Feeds], None]:
    def write(model: Path, target: Path, _: Feeds) -> None:
        fused = optimizer.optimize_model(str(model), model_type=kind, opt_level=0)
        fused.save_model_to_file(str(target))

    return write


def _simplified(model: Path, target: Path, _: Feeds) -> None:
    onnx.save_model(onnxsim.simplify(onnx.load(str(model)))[0], str(target))


def _passes(model: Path, target: Path, _: Feeds) -> None:
    onnx.save_model(onnxoptimizer.optimize(onnx.load(str(model))), str(target))


def _half(model: Path, target: Path, _: Feeds) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        halved = float16.convert_float_to_float16(onnx.load(str(model)), keep_io_types=True)
    onnx.save_model(halved, str(target))


def _dynamic(model: Path, target: Path, _: Feeds) -> None:
    quantization.quantize_dynamic(str(model), str(target))


def _static(form: quantization.QuantFormat) -> Callable[[Path, Path, Feeds], None]:
    def write(model: Path, target: Path, feeds: Feeds) -> None:
        quantization.quantize_static(str(model), str(target), _Once(feeds), quant_format=form)

    return write


class _Once(quantization.CalibrationDataReader):  # type: ignore[misc]
    """The feeds of one run, as calibration reads them."""

    def __init__(self, feeds: Feeds) -> None:
        self._left = [dict(feeds)]

    def get_next(self) -> dict[str, Array] | None:
        return self._left.pop() if self._left else None


def perturbed(place: float) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    """A fault: the weights of the Conv, MatMul or Gemm at *place* of all, half of them off."""

    def changed(model: onnx.ModelProto) -> onnx.ModelProto:
        from hidden_names import faulty

        return faulty(model, place)

    return changed


CONVERSIONS = (
    Conversion("as it is", lambda model, target, _: onnx.save_model(onnx.load(model), target)),
    Conversion("ort basic", _level("BASIC")),
    Conversion("ort extended", _level("EXTENDED")),
    Conversion("ort all", _level("ALL")),
    Conversion("transformers bert", _transformers("bert")),
    Conversion("transformers gpt2", _transformers("gpt2")),
    Conversion("onnxsim", _simplified),
    Conversion("onnxoptimizer", _passes),
    Conversion("float16", _half, by_name=True),
    Conversion("quantize_dynamic", _dynamic, by_name=True),
    Conversion("quantize QDQ", _static(quantization.QuantFormat.QDQ), by_name=True),
    Conversion("quantize QOperator", _static(quantization.QuantFormat.QOperator), by_name=True),
)
