"""Statistics of one dumped tensor, and whether two tensors are the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergraph.values.one_tensor import in_graph_order, read_stored
from divergraph.values.unread import Unread
from graphstore.model import DType, DumpTensorRef
from importers.layouts import LayoutError, to_layout

FLOAT16_MAX = 65504.0
_BLOCK = 1 << 18
_UNPADDED_BYTES = 1 << 26
_PLAIN = ("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN", "CHWN")


@dataclass(frozen=True, slots=True)
class Values:
    """``low`` and ``high`` are of the finite values (NaN if there are none), ``first`` is
    the flat place of the first NaN or infinity in the stored order, -1 without one.
    ``saturated`` counts float16 values at +-65504."""

    count: int
    low: float
    high: float
    nans: int = 0
    infinities: int = 0
    saturated: int = 0
    first: int = -1

    @property
    def nonfinite(self) -> int:
        """NaN and infinities."""
        return self.nans + self.infinities

    @property
    def zero(self) -> bool:
        """All values are zero."""
        return self.constant and self.low == 0.0

    @property
    def constant(self) -> bool:
        """All values are the same number."""
        return self.count > 1 and not self.nonfinite and self.low == self.high


@dataclass(frozen=True, slots=True)
class Difference:
    """How two tensors that should be the same differ. ``first`` and ``last`` are flat
    places; ``largest`` is the largest |a - b|, infinite where only one side is finite."""

    elements: int
    different: int
    first: int
    last: int
    largest: float

    @property
    def in_one_piece(self) -> bool:
        """True if the differing elements are contiguous."""
        return self.last - self.first + 1 == self.different


def values_of(ref: DumpTensorRef, origin_layout: str | None = None) -> Values | None:
    """The statistics of a tensor, without the padding of device layouts where that is cheap; None
    if it cannot be read or does not hold real numbers."""
    if ref.statistics is not None:
        return _from_statistics(ref)
    array = read_stored(ref)
    if isinstance(array, Unread):  # other commands report it; here the tensor is only not checked
        return None
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    if ref.nbytes <= _UNPADDED_BYTES:
        array = _unpadded(array, ref, origin_layout)
    return _scanned(array, half=ref.dtype is DType.FLOAT16)


def _unpadded(
    array: NDArray[Any], ref: DumpTensorRef, origin_layout: str | None = None
) -> NDArray[Any]:
    """*array* in framework layout, or as it is stored if that is not known."""
    if not ref.original_shape:
        return array
    try:
        return in_graph_order(array, ref, origin_layout)
    except LayoutError:  # an unknown layout only means that padding counts as values
        return array


def _from_statistics(ref: DumpTensorRef) -> Values | None:
    statistics = ref.statistics
    if statistics is None or not statistics.count:
        return None
    low, high = statistics.minimum, statistics.maximum
    ends = [abs(end) for end in (low, high) if end is not None and math.isfinite(end)]
    nans, infinities = statistics.nans or 0, statistics.infinities or 0
    if not nans and not infinities:
        # Without counts the statistics tell that there is some. Infinities may make the mean NaN,
        # and a sum may overflow by itself.
        infinities = int(any(end is not None and math.isinf(end) for end in (low, high)))
        tells = (low, high) if infinities else (low, high, statistics.mean)
        nans = int(any(end is not None and math.isnan(end) for end in tells))
    saturated = ref.dtype is DType.FLOAT16 and max(ends, default=0.0) >= FLOAT16_MAX
    return Values(
        statistics.count,
        math.nan if low is None else low,
        math.nan if high is None else high,
        nans,
        infinities,
        int(saturated),
    )


def _scanned(array: NDArray[Any], *, half: bool) -> Values:
    flat = array.reshape(-1)
    low, high = math.inf, -math.inf
    nans = infinities = saturated = 0
    first = -1
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        if half:
            block = block.astype(np.float32)
        block_low, block_high = float(block.min()), float(block.max())
        if not (math.isfinite(block_low) and math.isfinite(block_high)):
            good = np.isfinite(block)
            missing = int(np.isnan(block).sum())
            nans += missing
            infinities += int(block.size - good.sum()) - missing
            if first < 0:
                first = start + int(good.argmin())
            block = block[good]
            if not block.size:
                continue
            block_low, block_high = float(block.min()), float(block.max())
        if half and max(block_high, -block_low) >= FLOAT16_MAX:
            saturated += int((np.abs(block) >= FLOAT16_MAX).sum())
        low, high = min(low, block_low), max(high, block_high)
    if low > high:
        low = high = math.nan
    return Values(flat.size, low, high, nans, infinities, saturated, first)


def difference(
    one: DumpTensorRef, other: DumpTensorRef, origin_layout: str | None = None
) -> Difference | None:
    """How two dumps of the same tensor differ; ``different`` is 0 if they do not.

    They may have different layouts or element types; then values are compared, up to the rounding
    of the coarser type. None if they cannot be read or compared.
    """
    if one.statistics is not None or other.statistics is not None:
        return None
    array, right = read_stored(one), read_stored(other)
    if isinstance(array, Unread) or isinstance(right, Unread):
        return None  # not checked, and counted as such
    if array.dtype.kind not in "biuf" or right.dtype.kind not in "biuf":
        return None
    if (array.dtype.kind == "f") != (right.dtype.kind == "f"):
        return None  # a cast cut the fractions off
    alike = one.dtype is other.dtype and array.size == right.size
    moved = (one.layout or "ND") != (other.layout or "ND")
    if not alike or moved:
        array, right = _plain(array, one, origin_layout), _plain(right, other, origin_layout)
    if array.size != right.size:
        return None
    exact = one.dtype is other.dtype
    unlike = _differing(array.reshape(-1), right.reshape(-1), exact=exact)
    if moved and unlike.different:
        x, y = np.sort(array, axis=None), np.sort(right, axis=None)
        if not _differing(x, y, exact=exact).different:
            return None  # the same values: the layouts were not understood
    return unlike


def _plain(array: NDArray[Any], ref: DumpTensorRef, origin_layout: str | None) -> NDArray[Any]:
    """*array* without padding, and with its axes as the framework has them."""
    layout = ref.layout or "ND"
    if layout not in _PLAIN:
        return _unpadded(array, ref, origin_layout)
    if origin_layout is None or {layout, origin_layout} & {"ND"} or layout == origin_layout:
        return array
    try:
        return to_layout(array, layout, origin_layout)
    except LayoutError:  # other axes: then only the order is not known
        return array


def _differing(array: NDArray[Any], right: NDArray[Any], *, exact: bool) -> Difference:
    different, first, last, largest = 0, -1, -1, 0.0
    for start in range(0, array.size, _BLOCK):
        a, b = array[start : start + _BLOCK], right[start : start + _BLOCK]
        unlike = a != b
        if a.dtype.kind == "f" and b.dtype.kind == "f":
            unlike &= ~(np.isnan(a) & np.isnan(b))
        if not unlike.any():
            continue
        x, y = a[unlike].astype(np.float64), b[unlike].astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(x - y)
        error[np.isnan(error)] = np.inf
        places = np.flatnonzero(unlike)
        if not exact:  # a cast in between rounds, to 8 bits of fraction at the coarsest
            is_large = error > 2.0**-7 * np.abs(y)
            error, places = error[is_large], places[is_large]
            if not places.size:
                continue
        different += places.size
        first = start + int(places[0]) if first < 0 else first
        last = start + int(places[-1])
        largest = max(largest, float(error.max()))
    return Difference(array.size, different, first, last, largest)
