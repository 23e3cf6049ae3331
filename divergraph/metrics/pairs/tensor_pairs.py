"""Two dumped tensors measured: read, layout undone, one sweep; never an error.

This is what workers do, so it loads little; what the numbers mean is judged afterwards
by whoever asked, where the thresholds are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from divergraph.metrics.measure import DEFAULT, Wanted, measure
from divergraph.metrics.metrics import overflow_flag
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.small_files import Contents, NpyFiles, Pile, Piles, contents_of
from divergraph.metrics.pairs.small_pairs import (
    MOST_ELEMENTS,
    SMALL_TYPES,
    measured_rows,
    measured_together,
)
from divergraph.metrics.pairs.small_table import PairMeasurements, SmallTable
from divergraph.metrics.statistics import (
    BY_STATISTICS,
    NoStatisticsError,
    compare_statistics,
    statistics_of,
)
from divergraph.metrics.sweep import Sweeper
from graphstore.errors import ImportFormatError
from graphstore.model import (
    DType,
    DumpFormat,
    DumpTensorRef,
    Figures,
    MetricSet,
    Reason,
    Reorder,
    TensorStatistics,
)
from importers.dumps.bare.tensor import npy_ref
from importers.dumps.index import DamagedError
from importers.dumps.read import read_array, read_npy
from importers.layouts import LayoutError, UnsupportedLayoutError, align_to_golden, to_layout

DEVICE_LAYOUTS = ("NC1HWC0", "FRACTAL", "NDC1HWC0", "C1HWN")
FLOAT16_MAX = 65504.0
_USUAL_C0 = 16
_UNMEASURABLE = frozenset({DType.STRING, DType.STRING_REF, DType.VARIANT, DType.RESOURCE})


@dataclass(frozen=True, slots=True)
class TensorPair:
    """Two dumped tensors to hold against each other.

    ``origin_layout`` is what the device graph says golden has, ``golden_layout`` what the
    golden graph says; None where nobody says. ``reorder`` comes before the layout.
    """

    device: DumpTensorRef
    golden: DumpTensorRef
    origin_layout: str | None = None
    golden_layout: str | None = None
    reorder: Reorder | None = None

    @property
    def nbytes(self) -> int:
        """Bytes read for it, as far as known."""
        return self.device.nbytes + self.golden.nbytes


AnyPair: TypeAlias = TensorPair | NpyFiles


def tensor_pair(pair: AnyPair) -> TensorPair:
    """The tensor pair that *pair* is, or stands for."""
    if isinstance(pair, TensorPair):
        return pair
    return TensorPair(
        npy_ref(pair.device_path, pair.device_bytes), npy_ref(pair.golden_path, pair.golden_bytes)
    )


def measured_pair(
    pair: AnyPair, want: Wanted = DEFAULT, sweeper: Sweeper | None = None
) -> Measurement:
    """The measurement of *pair*; damaged or unfitting dumps give a reason, never an error."""
    opened = _opened_or_reason(pair)
    return opened if isinstance(opened, Measurement) else opened.measured(want, sweeper)


def measured_pairs(
    pairs: Sequence[AnyPair], want: Wanted = DEFAULT, sweeper: Sweeper | None = None
) -> PairMeasurements:
    """The measurement of each pair, the same as :func:`measured_pair` gives; many small
    pairs of one size take a third of the time."""
    found: dict[int, Measurement] = {}
    small: dict[object, list[tuple[int, _Opened]]] = {}
    tables: list[tuple[SmallTable, Measurement]] = []
    piles = Piles()
    for number, pair in enumerate(pairs):
        contents = contents_of(pair) if isinstance(pair, NpyFiles) else None
        if contents is None:
            opened = _opened_or_reason(pair)
        elif piles.take(number, contents):
            if (pile := piles.full()) is not None:
                tables += _measured_pile(pile, pairs, want, sweeper, found)
            continue
        else:
            opened = _of_contents(pair, contents)
        if isinstance(opened, Measurement):
            found[number] = opened
        elif opened.is_small:
            small.setdefault(opened.likeness, []).append((number, opened))
        else:
            found[number] = opened.measured(want, sweeper)
    for pile in piles.rest():
        tables += _measured_pile(pile, pairs, want, sweeper, found)
    for group in small.values():
        numbers = [number for number, _ in group]
        values = [(opened.aligned, opened.golden) for _, opened in group]
        done, known = measured_together(numbers, values, want)
        tables += ((table, group[0][1].told(None, None)) for table in done)
        numbers_done = set().union(*(table.numbers for table in done))
        for number, opened in group:
            if number not in numbers_done:
                found[number] = opened.measured(want, known.get(number, sweeper))
    return PairMeasurements(found, tables)


def _measured_pile(
    pile: Pile,
    pairs: Sequence[AnyPair],
    want: Wanted,
    sweeper: Sweeper | None,
    found: dict[int, Measurement],
) -> Iterator[tuple[SmallTable, Measurement]]:
    """The tables of a pile with what their rows have in common; *found* gets the rest."""
    device, golden = pile.rows()
    done, known = measured_rows(pile.numbers, device, golden, want)
    types = pile.device.kind, pile.golden.kind
    for table in done:
        yield table, Measurement(None, None, None, "", pile.shape, None, *types)
    numbers_done = set().union(*(table.numbers for table in done))
    if len(numbers_done) == len(pile.numbers):
        return
    for number, x, y in zip(pile.numbers, device, golden, strict=True):
        if number not in numbers_done:
            values = x.reshape(pile.shape)
            opened = _Opened(
                tensor_pair(pairs[number]), values, values, y.reshape(pile.shape), *types
            )
            found[number] = opened.measured(want, known.get(number, sweeper))


def _opened_or_reason(pair: AnyPair) -> _Opened | Measurement:
    pair = tensor_pair(pair)
    try:
        return _opened(pair)
    except ImportFormatError as error:
        reason, detail = _why_unread(error), str(error)
    except LayoutError as error:
        reason, detail = _layout_reason(error), str(error)
    except NoStatisticsError as error:
        reason, detail = Reason.STATISTICS_ONLY, str(error)
    return replace(_types(pair), reason=reason, detail=detail)


def _why_unread(error: ImportFormatError) -> Reason:
    """What is no tensor of numbers is not damaged by that."""
    cause = error.__cause__
    return cause.reason if isinstance(cause, DamagedError) else Reason.UNREADABLE_DUMP


def _types(pair: TensorPair) -> Measurement:
    return Measurement(device_dtype=pair.device.dtype, golden_dtype=pair.golden.dtype)


class _Opened(NamedTuple):
    """The values of a pair: the device's as stored and as golden has them, and golden's."""

    pair: TensorPair
    device: NDArray[np.generic]
    aligned: NDArray[np.generic]
    golden: NDArray[np.generic]
    device_dtype: DType | None
    golden_dtype: DType | None

    @property
    def is_small(self) -> bool:
        """True for what is faster together with others like it."""
        device, golden = self.aligned, self.golden
        return (
            device.size == golden.size
            and 0 < golden.size <= MOST_ELEMENTS
            and device.dtype in SMALL_TYPES
            and golden.dtype in SMALL_TYPES
        )

    @property
    def likeness(self) -> object:
        """Pairs that have this in common differ in nothing but values."""
        device = self.device.dtype
        # Padding is not compared, but may hold an overflow.
        told = overflow_flag(self.device) if device == np.float16 else None
        types = self.aligned.dtype, self.golden.dtype, self.device_dtype, self.golden_dtype
        return self.golden.shape, types, told

    def measured(self, want: Wanted, sweeper: Sweeper | None) -> Measurement:
        try:
            found = measure(
                self.aligned,
                self.golden,
                want=want,
                sweeper=sweeper,
                layout=self.pair.golden_layout or self.pair.origin_layout,
                c0=channels_of_a_block(self.pair.device),
            )
        except ImportFormatError as error:  # another process could not read its part
            return self.without(Reason.UNREADABLE_DUMP, str(error))
        except ValueError as error:
            return self.without(Reason.DTYPE_UNSUPPORTED, str(error))
        return self.told(found.metrics, found.figures)

    def without(self, reason: Reason, detail: str) -> Measurement:
        return self.told(None, None, reason, detail)

    def told(
        self,
        metrics: MetricSet | None,
        figures: Figures | None,
        reason: Reason | None = None,
        detail: str = "",
    ) -> Measurement:
        shape, overflow = self.golden.shape, overflow_flag(self.device)
        types = self.device_dtype, self.golden_dtype
        return Measurement(metrics, figures, reason, detail, shape, overflow, *types)


def _of_contents(pair: AnyPair, contents: Contents) -> _Opened:
    (data, device), (golden_data, golden) = contents
    values = np.ndarray(device.shape, device.dtype, data, device.offset)
    expected = np.ndarray(golden.shape, golden.dtype, golden_data, golden.offset)
    return _Opened(tensor_pair(pair), values, values, expected, device.kind, golden.kind)


def _opened(pair: TensorPair) -> _Opened | Measurement:
    if pair.device.statistics is not None or pair.golden.statistics is not None:
        return _by_statistics(pair)
    for ref in (pair.device, pair.golden):
        if ref.dtype in _UNMEASURABLE or (ref.dtype is None and not _is_closed(ref)):
            detail = f"{ref.path}: no metric is defined for {ref.dtype or 'this type'}"
            return replace(_types(pair), reason=Reason.DTYPE_UNSUPPORTED, detail=detail)
    device, device_dtype = _read(pair.device)
    golden, golden_dtype = _read_golden(pair)
    shape = golden.shape
    opened = _Opened(pair, device, device, golden, device_dtype, golden_dtype)
    aligned = device
    if pair.reorder is not None:
        from divergraph.values.closeness import reordered

        moved = reordered(device, pair.reorder, shape)
        if moved is None:
            detail = f"{pair.reorder} does not lead to shape {shape}"
            return opened.without(Reason.SHAPE_MISMATCH, detail)
        aligned = moved
    try:
        aligned = _aligned(pair, aligned, shape)
    except LayoutError as error:
        return opened.without(_layout_reason(error), str(error))
    return opened if aligned is device else opened._replace(aligned=aligned)


def read_pair(pair: TensorPair) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """The values of both sides in golden's shape and order.

    Raises:
        ImportFormatError: a dump cannot be read.
        LayoutError: the shapes do not fit each other.
    """
    device, golden = _read(pair.device)[0], _read_golden(pair)[0]
    return _aligned(pair, device, tuple(golden.shape)), golden


def _is_closed(ref: DumpTensorRef) -> bool:
    """True for a ``.npy`` file nobody has looked into yet."""
    return ref.format is DumpFormat.NPY and ref.shape is None


def _read(ref: DumpTensorRef) -> tuple[NDArray[np.generic], DType | None]:
    if _is_closed(ref):
        return read_npy(ref.path, ref.dtype, ref.nbytes)
    return read_array(ref), ref.dtype


def _aligned(
    pair: TensorPair, device: NDArray[np.generic], shape: tuple[int, ...]
) -> NDArray[np.generic]:
    if device.shape == shape and (pair.device.layout is None or _stored_alike(pair)):
        return device
    return align_to_golden(
        device,
        pair.device.layout,
        pair.origin_layout or pair.golden_layout,
        pair.device.original_shape,
        shape,
        groups=pair.device.groups,
    )


def _by_statistics(pair: TensorPair) -> Measurement:
    """The measurement where a dump holds statistics: bounds of the errors, said so."""
    golden = pair.golden.statistics or statistics_of(_read_golden(pair)[0])
    device = pair.device.statistics or statistics_of(_device_values(pair))
    padded = _is_padded(pair.device) and pair.device.statistics is not None
    return replace(
        _types(pair),
        shape=pair.golden.shape,
        metrics=compare_statistics(device, golden, padded=padded),
        detail=f"{BY_STATISTICS}: errors are lower bounds",
        overflow=_told_overflow(pair.device.dtype, device),
    )


def _device_values(pair: TensorPair) -> NDArray[np.generic]:
    """The device's values without padding, where the golden shape is known."""
    array = _read(pair.device)[0]
    if not _is_padded(pair.device) or pair.golden.shape is None:
        return array
    return _aligned(pair, array, pair.golden.shape)


def _is_padded(ref: DumpTensorRef) -> bool:
    return ref.layout is not None and ref.layout.startswith(DEVICE_LAYOUTS)


def channels_of_a_block(ref: DumpTensorRef) -> int:
    """C0 of the device's layout: the last axis of its blocked layouts, 16 of all others."""
    return ref.shape[-1] if _is_padded(ref) and ref.shape else _USUAL_C0


def _told_overflow(dtype: DType | None, device: TensorStatistics) -> bool | None:
    if dtype is not DType.FLOAT16:
        return None
    ends = [abs(end) for end in (device.maximum, device.minimum) if end is not None]
    return bool(device.infinities) or any(end >= FLOAT16_MAX for end in ends)


def _read_golden(pair: TensorPair) -> tuple[NDArray[np.generic], DType | None]:
    """The golden values in framework layout (a golden side may be a device dump too)."""
    array, dtype = _read(pair.golden)
    layout = pair.golden.layout
    if layout is None or not layout.startswith(DEVICE_LAYOUTS) or _stored_alike(pair):
        return array, dtype
    wanted = pair.golden_layout or pair.origin_layout
    shape = pair.golden.original_shape or None
    if wanted is None and shape is not None:  # no graph says whether that is NCHW or NHWC
        return align_to_golden(array, layout, None, shape, shape, groups=pair.golden.groups), dtype
    wanted = wanted or "ND"
    return to_layout(array, layout, wanted, shape, groups=pair.golden.groups), dtype


def _stored_alike(pair: TensorPair) -> bool:
    """True for two device tensors in one layout of which nobody knows the original shape:
    they are compared as they are stored, padding included."""
    device, golden = pair.device, pair.golden
    return (
        device.layout == golden.layout is not None
        and device.shape == golden.shape
        and not golden.original_shape
        and not device.original_shape
    )


def _layout_reason(error: LayoutError) -> Reason:
    unsupported = isinstance(error, UnsupportedLayoutError)
    return Reason.LAYOUT_UNSUPPORTED if unsupported else Reason.SHAPE_MISMATCH
