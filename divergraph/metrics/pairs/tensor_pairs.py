"""Two dumped tensors measured: read, layout undone, one sweep; a failure is a reason, never an
error. Workers run this, so it imports little; thresholds are applied afterwards by the caller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

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
from divergraph.metrics.statistics import NoStatisticsError, statistics_of, told_by_statistics
from divergraph.metrics.sweep import Sweeper
from divergraph.values.array_types import Array
from divergraph.values.one_tensor import is_closed
from divergraph.values.pairs import PairValues, Unaligned, read_device, read_golden, read_sides
from divergraph.values.tensor_pair import TensorPair, is_blocked
from divergraph.values.unread import Unread
from graphstore.errors import ImportFormatError
from graphstore.model import DType, Figures, MetricSet, Reason, TensorStatistics
from importers.dumps.bare.tensor import npy_ref

FLOAT16_MAX = 65504.0
_UNMEASURABLE = frozenset({DType.STRING, DType.STRING_REF, DType.VARIANT, DType.RESOURCE})

AnyPair: TypeAlias = TensorPair | NpyFiles


def tensor_pair(pair: AnyPair) -> TensorPair:
    """*pair*, opened if it is two ``.npy`` files that were not looked into yet."""
    if isinstance(pair, TensorPair):
        return pair
    return TensorPair(
        npy_ref(pair.device_path, pair.device_bytes), npy_ref(pair.golden_path, pair.golden_bytes)
    )


def measured_pair(
    pair: AnyPair, want: Wanted = DEFAULT, sweeper: Sweeper | None = None
) -> Measurement:
    """The measurement of *pair*; dumps that are damaged or do not fit give a reason, never an
    error."""
    opened = _opened_or_reason(pair)
    return opened if isinstance(opened, Measurement) else opened.measured(want, sweeper)


def measured_pairs(
    pairs: Sequence[AnyPair], want: Wanted = DEFAULT, sweeper: Sweeper | None = None
) -> PairMeasurements:
    """The measurement of each pair, as :func:`measured_pair` gives it; many small pairs of one size
    take a third of the time."""
    measurements: dict[int, Measurement] = {}
    small: dict[object, list[tuple[int, _Opened]]] = {}
    tables: list[tuple[SmallTable, Measurement]] = []
    piles = Piles()
    for number, pair in enumerate(pairs):
        contents = contents_of(pair) if isinstance(pair, NpyFiles) else None
        if contents is None:
            opened = _opened_or_reason(pair)
        elif piles.take(number, contents):
            if (pile := piles.full()) is not None:
                tables += _measured_pile(pile, pairs, want, sweeper, measurements)
            continue
        else:
            opened = _of_contents(pair, contents)
        if isinstance(opened, Measurement):
            measurements[number] = opened
        elif opened.is_small:
            small.setdefault(opened.likeness, []).append((number, opened))
        else:
            measurements[number] = opened.measured(want, sweeper)
    for pile in piles.rest():
        tables += _measured_pile(pile, pairs, want, sweeper, measurements)
    for group in small.values():
        numbers = [number for number, _ in group]
        values = [opened.values[:2] for _, opened in group]
        done, known_sums = measured_together(numbers, values, want)
        tables += ((table, group[0][1].told(None, None)) for table in done)
        numbers_done = set().union(*(table.numbers for table in done))
        for number, opened in group:
            if number not in numbers_done:
                measurements[number] = opened.measured(want, known_sums.get(number, sweeper))
    return PairMeasurements(measurements, tables)


def _measured_pile(
    pile: Pile,
    pairs: Sequence[AnyPair],
    want: Wanted,
    sweeper: Sweeper | None,
    measurements: dict[int, Measurement],
) -> Iterator[tuple[SmallTable, Measurement]]:
    """The tables of a pile with what their rows have in common; *measurements* gets the rest."""
    device, golden = pile.rows()
    done, known_sums = measured_rows(pile.numbers, device, golden, want)
    types = pile.device.kind, pile.golden.kind
    for table in done:
        yield table, Measurement(None, None, None, "", pile.shape, None, *types)
    numbers_done = set().union(*(table.numbers for table in done))
    if len(numbers_done) == len(pile.numbers):
        return
    for number, x, y in zip(pile.numbers, device, golden, strict=True):
        if number not in numbers_done:
            values = _as_stored(x.reshape(pile.shape), y.reshape(pile.shape), *types)
            opened = _Opened(tensor_pair(pairs[number]), values)
            measurements[number] = opened.measured(want, known_sums.get(number, sweeper))


def _opened_or_reason(pair: AnyPair) -> _Opened | Measurement:
    pair = tensor_pair(pair)
    if pair.device.statistics is not None or pair.golden.statistics is not None:
        return _by_statistics(pair)
    for ref in (pair.device, pair.golden):
        if ref.dtype in _UNMEASURABLE or (ref.dtype is None and not is_closed(ref)):
            detail = f"{ref.path}: no metric is defined for {ref.dtype or 'this type'}"
            return replace(_types(pair), reason=Reason.DTYPE_UNSUPPORTED, detail=detail)
    values = read_sides(pair)
    if isinstance(values, Unread):
        return _unread(pair, values)
    if isinstance(values, Unaligned):
        return _Opened(pair, values.stored).without(values.why.reason, values.why.detail)
    return _Opened(pair, values)


def _unread(pair: TensorPair, why: Unread) -> Measurement:
    return replace(_types(pair), reason=why.reason, detail=why.detail)


def _types(pair: TensorPair) -> Measurement:
    return Measurement(device_dtype=pair.device.dtype, golden_dtype=pair.golden.dtype)


class _Opened(NamedTuple):
    """A pair with its values."""

    pair: TensorPair
    values: PairValues

    @property
    def is_small(self) -> bool:
        """True if it is faster to measure together with others like it."""
        device, golden = self.values.device, self.values.golden
        return (
            device.size == golden.size
            and 0 < golden.size <= MOST_ELEMENTS
            and device.dtype in SMALL_TYPES
            and golden.dtype in SMALL_TYPES
        )

    @property
    def likeness(self) -> object:
        """A key; pairs with the same one differ in nothing but their values."""
        device, golden, stored, dtypes = self.values
        # Padding is not compared, but may hold an overflow.
        overflow = overflow_flag(stored) if stored.dtype == np.float16 else None
        return golden.shape, device.dtype, golden.dtype, dtypes, overflow

    def measured(self, want: Wanted, sweeper: Sweeper | None) -> Measurement:
        try:
            measurement = measure(
                self.values.device,
                self.values.golden,
                want=want,
                sweeper=sweeper,
                layout=self.pair.layout,
                c0=self.pair.c0,
            )
        except ImportFormatError as error:  # another process could not read its part
            return self.without(Reason.UNREADABLE_DUMP, str(error))
        except ValueError as error:
            return self.without(Reason.DTYPE_UNSUPPORTED, str(error))
        return self.told(measurement.metrics, measurement.figures)

    def without(self, reason: Reason, detail: str) -> Measurement:
        return self.told(None, None, reason, detail)

    def told(
        self,
        metrics: MetricSet | None,
        figures: Figures | None,
        reason: Reason | None = None,
        detail: str = "",
    ) -> Measurement:
        _, golden, stored, dtypes = self.values
        overflow = overflow_flag(stored)
        return Measurement(metrics, figures, reason, detail, golden.shape, overflow, *dtypes)


def _of_contents(pair: AnyPair, contents: Contents) -> _Opened:
    (data, device), (golden_data, golden) = contents
    values = np.ndarray(device.shape, device.dtype, data, device.offset)
    expected = np.ndarray(golden.shape, golden.dtype, golden_data, golden.offset)
    return _Opened(tensor_pair(pair), _as_stored(values, expected, device.kind, golden.kind))


def _as_stored(device: Array, golden: Array, *dtypes: DType | None) -> PairValues:
    return PairValues(device, golden, device, (dtypes[0], dtypes[1]))


def _by_statistics(pair: TensorPair) -> Measurement:
    """The measurement where a dump holds statistics: lower bounds of the errors, marked as such."""
    statistics = pair.golden.statistics or read_golden(pair)
    seen = pair.device.statistics or _without_padding(pair)
    for side in (statistics, seen):
        if isinstance(side, Unread):
            return _unread(pair, side)
    padded = is_blocked(pair.device) and pair.device.statistics is not None
    alike = (pair.golden.dtype, pair.golden.shape) == (pair.device.dtype, pair.device.shape)
    try:
        golden, device = _statistics(statistics), _statistics(seen)
    except NoStatisticsError as error:
        return replace(_types(pair), reason=Reason.STATISTICS_ONLY, detail=str(error))
    metrics, detail = told_by_statistics(device, golden, alike=alike, padded=padded)
    if metrics is None:
        return replace(_types(pair), reason=Reason.STATISTICS_ONLY, detail=detail)
    return replace(
        _types(pair),
        shape=pair.golden.shape,
        metrics=metrics,
        detail=detail,
        overflow=_told_overflow(pair.device.dtype, device),
    )


def _without_padding(pair: TensorPair) -> Array | Unread:
    """The device's values without padding, where the golden shape is known."""
    shape = pair.golden.shape if is_blocked(pair.device) else None
    return read_device(pair, shape, lambda: read_golden(pair))


def _statistics(side: TensorStatistics | Array | Unread) -> TensorStatistics:
    assert not isinstance(side, Unread)
    return side if isinstance(side, TensorStatistics) else statistics_of(side)


def _told_overflow(dtype: DType | None, device: TensorStatistics) -> bool | None:
    if dtype is not DType.FLOAT16:
        return None
    ends = [abs(end) for end in (device.maximum, device.minimum) if end is not None]
    return bool(device.infinities) or any(end >= FLOAT16_MAX for end in ends)
