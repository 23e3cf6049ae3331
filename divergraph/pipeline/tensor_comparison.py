"""Compare one pair of dumped tensors: read, undo the layout, measure, judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divergraph.comparison.metrics import compare_arrays, overflow_flag
from divergraph.comparison.statistics import (
    BY_STATISTICS,
    NoStatisticsError,
    compare_statistics,
    statistics_of,
)
from divergraph.comparison.thresholds import Thresholds
from divergraph.matching.closeness import reordered
from divergraph.pipeline.pairing import Pair
from graphstore.errors import ImportFormatError
from graphstore.model import Comparison, DType, DumpTensorRef, Reason, TensorStatistics
from importers.dumps import read_array
from importers.layouts import LayoutError, UnsupportedLayoutError, align_to_golden, to_layout

_DEVICE_LAYOUTS = ("NC1HWC0", "FRACTAL", "NDC1HWC0", "C1HWN")
FLOAT16_MAX = 65504.0
_UNMEASURABLE = frozenset({DType.STRING, DType.STRING_REF, DType.VARIANT, DType.RESOURCE})


def compare_pair(pair: Pair, thresholds: Thresholds) -> Comparison:
    """The comparison of *pair*; damaged or unfitting dumps give a reason, never an error."""
    base = Comparison(
        pair.op.id,
        pair.io,
        pair.port,
        pair.match.golden,
        pair.match.rule,
        device_dtype=pair.device.dtype,
        golden_dtype=pair.golden.dtype,
        device_path=str(pair.device.path),
        golden_path=str(pair.golden.path),
        address=pair.device.address,
    )
    if pair.device.statistics is not None or pair.golden.statistics is not None:
        return _by_statistics(pair, base, thresholds)
    for ref in (pair.device, pair.golden):
        if ref.dtype is None or ref.dtype in _UNMEASURABLE:
            detail = f"{ref.path}: no metric is defined for {ref.dtype or 'this type'}"
            return replace(base, reason=Reason.DTYPE_UNSUPPORTED, detail=detail)
    try:
        device, golden = read_array(pair.device), _read_golden(pair)
    except ImportFormatError as error:
        return replace(base, reason=Reason.UNREADABLE_DUMP, detail=str(error))
    except LayoutError as error:
        return replace(base, reason=_layout_reason(error), detail=str(error))
    base = replace(base, shape=tuple(golden.shape), overflow=overflow_flag(device))
    return _measure(pair, base, device, golden, thresholds)


def _measure(
    pair: Pair,
    base: Comparison,
    device: np.ndarray,
    golden: np.ndarray,
    thresholds: Thresholds,
) -> Comparison:
    if pair.match.reorder is not None:
        moved = reordered(device, pair.match.reorder, golden.shape)
        if moved is None:
            detail = f"{pair.match.reorder} does not lead to shape {tuple(golden.shape)}"
            return replace(base, reason=Reason.SHAPE_MISMATCH, detail=detail)
        device = moved
    try:
        aligned = align_to_golden(
            device,
            pair.device.layout,
            pair.origin_layout or pair.golden_layout,
            pair.device.original_shape,
            golden.shape,
            groups=pair.device.groups,
        )
    except LayoutError as error:
        return replace(base, reason=_layout_reason(error), detail=str(error))
    try:
        metrics = compare_arrays(aligned, golden)
    except ValueError as error:
        return replace(base, reason=Reason.DTYPE_UNSUPPORTED, detail=str(error))
    judgement = thresholds.judge(metrics)
    return replace(
        base,
        metrics=metrics,
        level=judgement.level,
        failed=judgement.failed,
    )


def _by_statistics(pair: Pair, base: Comparison, thresholds: Thresholds) -> Comparison:
    """The comparison where a dump holds statistics: bounds of the errors, said so."""
    try:
        golden = pair.golden.statistics or statistics_of(_read_golden(pair))
        device = pair.device.statistics or statistics_of(_device_values(pair))
        padded = _is_padded(pair.device) and pair.device.statistics is not None
        metrics = compare_statistics(device, golden, padded=padded)
    except ImportFormatError as error:
        return replace(base, reason=Reason.UNREADABLE_DUMP, detail=str(error))
    except LayoutError as error:
        return replace(base, reason=_layout_reason(error), detail=str(error))
    except NoStatisticsError as error:
        return replace(base, reason=Reason.STATISTICS_ONLY, detail=str(error))
    judgement = thresholds.judge(metrics)
    return replace(
        base,
        shape=pair.golden.shape,
        metrics=metrics,
        level=judgement.level,
        failed=judgement.failed,
        detail=f"{BY_STATISTICS}: errors are lower bounds",
        overflow=_told_overflow(pair.device.dtype, device),
    )


def _device_values(pair: Pair) -> np.ndarray:
    """The device's values without padding, where the golden shape is known."""
    array = read_array(pair.device)
    if not _is_padded(pair.device) or pair.golden.shape is None:
        return array
    return align_to_golden(
        array,
        pair.device.layout,
        pair.origin_layout or pair.golden_layout,
        pair.device.original_shape,
        pair.golden.shape,
        groups=pair.device.groups,
    )


def _is_padded(ref: DumpTensorRef) -> bool:
    return ref.layout is not None and ref.layout.startswith(_DEVICE_LAYOUTS)


def _told_overflow(dtype: DType | None, device: TensorStatistics) -> bool | None:
    if dtype is not DType.FLOAT16:
        return None
    ends = [abs(end) for end in (device.maximum, device.minimum) if end is not None]
    return bool(device.infinities) or any(end >= FLOAT16_MAX for end in ends)


def _read_golden(pair: Pair) -> np.ndarray:
    """The golden values in framework layout (a golden side may be a device dump too)."""
    array = read_array(pair.golden)
    layout = pair.golden.layout
    if layout is None or not layout.startswith(_DEVICE_LAYOUTS):
        return array
    wanted = pair.golden_layout or pair.origin_layout or "ND"
    return to_layout(array, layout, wanted, _original_shape(pair.golden), groups=pair.golden.groups)


def _layout_reason(error: LayoutError) -> Reason:
    unsupported = isinstance(error, UnsupportedLayoutError)
    return Reason.LAYOUT_UNSUPPORTED if unsupported else Reason.SHAPE_MISMATCH


def _original_shape(ref: DumpTensorRef) -> tuple[int, ...] | None:
    return ref.original_shape or None
