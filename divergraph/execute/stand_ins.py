"""Models that stand in for a device: the same network in lower precision, or fused.

They let people learn and test accuracy debugging without an accelerator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.child.executor import called_in_child
from divergraph.execute.contract import Array
from divergraph.execute.onnx.session import (
    first_line,
    load_onnxruntime,
    onnxruntime_told,
    runtime_errors,
)
from graphstore.errors import ExecutionError

if TYPE_CHECKING:
    from onnx import ModelProto

_BIG = 1 << 30
"""From this many bytes of weights on, they are written beside the model."""
_FATAL_ONLY, _WARNINGS = 4, 2  # severities of ONNX Runtime; the second is its default


class StandIn(StrEnum):
    """What runs the model: as it is, or one of the stand-ins."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    OPTIMIZED = "optimized"


def make_stand_in(model: Path, kind: StandIn, target: Path, feeds: Mapping[str, Array]) -> None:
    """Write *model* as *kind* to *target*; int8 is calibrated on *feeds*.

    Raises:
        ExecutionError: the model cannot be converted.
    """
    readable = (model.parent.absolute(), model.resolve().parent)
    arguments = (model, kind, target.name, dict(feeds))
    called_in_child(readable, load_onnxruntime, _make, *arguments, into=target.parent)


def stand_in_outputs(
    model: Path, kind: StandIn, feeds: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    """The outputs *wanted* of *model* made *kind*, as ONNX Runtime runs it with all optimisations.

    Raises:
        ExecutionError: it cannot be converted, or does not run.
    """
    arguments = (model, kind, dict(feeds), list(wanted))
    return dict(called_in_child((model.parent.parent,), load_onnxruntime, _outputs, *arguments))


def _make(folder: Path, model: Path, kind: StandIn, name: str, feeds: Mapping[str, Array]) -> None:
    target = folder / name
    with _conversion_errors(model, kind), _no_chatter():
        if kind is StandIn.FP16:
            _fp16(model, target)
        elif kind is StandIn.INT8:
            _int8(model, target, feeds)
        else:
            _optimized(model, target)


def _outputs(
    folder: Path, model: Path, kind: StandIn, feeds: Mapping[str, Array], wanted: list[str]
) -> dict[str, Array]:
    import onnxruntime

    _make(folder, model, kind, "weaker.onnx", feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    with onnxruntime_told("ONNX Runtime fails"):
        session = onnxruntime.InferenceSession(
            str(folder / "weaker.onnx"), options, providers=["CPUExecutionProvider"]
        )
        names = {model_input.name for model_input in session.get_inputs()}
        results = session.run(wanted, {n: v for n, v in feeds.items() if n in names})
    return {name: np.asarray(value) for name, value in zip(wanted, results, strict=True)}


def _fp16(model: Path, target: Path) -> None:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    converted = convert_float_to_float16(onnx.load_model(str(model)), keep_io_types=True)
    _save(converted, target)


def _int8(model: Path, target: Path, feeds: Mapping[str, Array]) -> None:
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class OneSample(CalibrationDataReader):  # type: ignore[misc]  # the package has no types
        """The feeds, once."""

        def __init__(self) -> None:
            self._left = [dict(feeds)]

        def get_next(self) -> dict[str, Array] | None:
            """The sample, then None."""
            return self._left.pop() if self._left else None

    loaded = onnx.load_model(str(model))  # of a path it writes a second model beside the first
    if any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in loaded.graph.initializer):
        # Its result would not load: float32 scales for values in float16.
        raise ExecutionError(
            f"{model}: ONNX Runtime quantises models whose weights are float32; these are float16",
            hint="take the model as it was before it was converted to float16",
        )
    quantize_static(
        loaded,
        str(target),
        OneSample(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        # Otherwise ReLUs vanish into the quantisation, and the tensor in front of one gets
        # the name of the tensor behind it; and their inputs get the range of their outputs.
        extra_options={"QDQKeepRemovableActivations": True, "ActivationSymmetric": True},
        use_external_data_format=_weight_bytes(model) > _BIG,
    )


def _optimized(model: Path, target: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The highest level would lay tensors out for this very processor.
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 4
    if _weight_bytes(model) > _BIG:
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name", f"{target.name}.data"
        )
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _save(model: ModelProto, target: Path) -> None:
    import onnx

    big = model.ByteSize() > _BIG
    onnx.save_model(
        model,
        str(target),
        save_as_external_data=big,
        location=f"{target.name}.data" if big else None,
    )


def _weight_bytes(model: Path) -> int:
    """Bytes of the model and what lies beside it under a name that starts alike."""
    return sum(path.stat().st_size for path in model.parent.glob(f"{model.stem}*"))


_BROKEN_CONVERSIONS = (OSError, TypeError, KeyError, IndexError, AttributeError)
"""What converters raise on models they were not written for."""


@contextmanager
def _conversion_errors(model: Path, kind: StandIn) -> Iterator[None]:
    failures: tuple[type[Exception], ...] = (*runtime_errors(), *_BROKEN_CONVERSIONS)
    try:
        yield
    except ImportError as error:
        raise ExecutionError(f"making {kind} models needs a package: {error}") from error
    except failures as error:
        raise ExecutionError(
            f"the model cannot be made {kind}: {first_line(error)}", where=str(model)
        ) from error


@contextmanager
def _no_chatter() -> Iterator[None]:
    """The converters log hints at their own command lines, ONNX Runtime what it raises."""
    import onnxruntime

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(_FATAL_ONLY)
    try:
        yield
    finally:
        logging.disable(before)
        onnxruntime.set_default_logger_severity(_WARNINGS)
