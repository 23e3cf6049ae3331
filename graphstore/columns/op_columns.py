"""All ops of one side as columns: what lists, filters and orders of many ops run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Bool, Coded, Float, Int, Lists
from graphstore.columns.op_attributes import attributes_of, has_attributes
from graphstore.columns.parts import MetricColumns, OptionalNumbers, SplitColumns
from graphstore.model import Level, Metric, OpState, Reason, Shape, Side
from graphstore.op_row import OpRow

_CHUNK = 8192


@dataclass(frozen=True, eq=False)
class OpColumns(Sequence[OpRow]):
    """The ops of one side of a run, or of an imported graph, in topo order.

    It is a sequence of :class:`OpRow`, each made when it is asked for: take rows for what is shown,
    columns for anything that looks at all ops. Columns are named after the fields of a row, one
    value an op; ``codes`` of a :class:`Coded` column are places in its few ``values``. Metrics and
    splits have rows for the ops only that have them: ``measured[i]`` and ``judged[i]`` are the row
    of op i there, -1 where it has none. ``outputs`` is -1 and ``gain`` NaN where they are unknown.
    """

    side: Side
    ids: Sequence[str]
    number: Mapping[str, int]
    """The place of each id."""
    own_names: Coded[str | None]
    """The name where it is not the id."""
    types: Coded[str]
    subgraphs: Coded[str]
    dtypes: Coded[str]
    shapes: Coded[Shape | None]
    layouts: Coded[str]
    fused: Int
    originals: Lists
    states: Coded[OpState | None]
    levels: Coded[Level | None]
    outputs: Int
    failed: Coded[tuple[Metric, ...]]
    reasons: Coded[Reason | None]
    details: Coded[str]
    gain: Float
    origins: Coded[tuple[str, ...]]
    measured: Int
    metrics: MetricColumns
    judged: Int
    splits: SplitColumns
    several: Bool
    """The ops with more than one compared output: their row shows the worst."""

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> OpRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpRow]: ...
    def __getitem__(self, index: int | slice) -> OpRow | list[OpRow]:
        """One row, or some."""
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return self.rows(np.asarray(numbers, dtype=np.int32))
        return self.rows(np.array([numbers], dtype=np.int32))[0]

    def __iter__(self) -> Iterator[OpRow]:
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]

    def rows(self, numbers: NDArray[Any]) -> list[OpRow]:
        """The rows of the ops *numbers*, in that order."""
        own, listed = self.own_names.listed(numbers), numbers.tolist()
        ids = [self.ids[number] for number in listed]
        outputs, gains = self.outputs[numbers].tolist(), self.gain[numbers].tolist()
        columns: dict[str, Sequence[Any]] = {
            "topo": listed,
            "id": ids,
            "name": [op if name is None else name for op, name in zip(ids, own, strict=True)],
            "type": self.types.listed(numbers),
            "side": [self.side] * len(listed),
            "subgraph": self.subgraphs.listed(numbers),
            "dtype": self.dtypes.listed(numbers),
            "shape": self.shapes.listed(numbers),
            "layout": self.layouts.listed(numbers),
            "fused": self.fused[numbers].tolist(),
            "originals": [self.originals[number] for number in listed],
            "state": self.states.listed(numbers),
            "level": self.levels.listed(numbers),
            "output": [None if port < 0 else port for port in outputs],
            "metrics": _there(self.metrics, self.measured[numbers]),
            "failed": self.failed.listed(numbers),
            "reason": self.reasons.listed(numbers),
            "detail": self.details.listed(numbers),
            "gain": [None if gain != gain else gain for gain in gains],
            "origins": self.origins.listed(numbers),
            "split": _there(self.splits, self.judged[numbers]),
        }
        if has_attributes(self):
            columns["attributes"] = attributes_of(self).listed(numbers)
        field_columns = [columns[field.name] for field in fields(OpRow) if field.name in columns]
        return list(map(OpRow, *field_columns))  # notes are none of a column

    @cached_property
    def has_metrics(self) -> Bool:
        """The ops with metrics."""
        there: Bool = self.measured >= 0
        return there

    def name(self, number: int) -> str:
        """The name of op *number*, as its file says it."""
        own = self.own_names[number]
        return self.ids[number] if own is None else own

    def figure(self, name: str) -> Float:
        """A number of the metrics of each op, by the names ``FIGURES``; NaN without metrics."""
        return self.of_measured(self.metrics.numbers[name], np.nan)

    @property
    def broken(self) -> Bool:
        """The ops with NaN or Inf on the device that golden has not."""
        return self.of_measured(self.metrics.broken, fill=False)

    def of_measured(self, values: NDArray[Any], fill: Any) -> NDArray[Any]:
        """*values*, one for each row of the metrics, for all ops; *fill* without metrics."""
        return np.append(values, fill)[self.measured]

    def split_number(self, name: str) -> OptionalNumbers:
        """A number of the split of each op; not known without a split."""
        numbers = self.splits.numbers[name]
        values, is_known = np.append(numbers.values, np.nan), np.append(numbers.known, False)
        return OptionalNumbers(values[self.judged], is_known[self.judged])

    @property
    def relative_errors(self) -> Float:
        """Relative errors: NaN where nothing was measured, infinite where broken, of booleans the
        share that differs."""
        metrics = self.metrics
        own = metrics.numbers[Metric.RELATIVE_EUCLIDEAN_DISTANCE.value]
        undefined = np.where(metrics.broken, np.inf, metrics.share_different)
        return self.of_measured(np.where(np.isnan(own), undefined, own), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class OpSelection(Sequence[OpRow]):
    """Some *ops* by their *numbers*, in any order; rows are made when they are asked for."""

    ops: OpColumns
    numbers: NDArray[Any]

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> OpRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpRow]: ...
    def __getitem__(self, index: int | slice) -> OpRow | list[OpRow]:
        """One row, or some."""
        if isinstance(index, slice):
            return self.ops.rows(self.numbers[index])
        return self.ops[int(self.numbers[index])]

    def __iter__(self) -> Iterator[OpRow]:
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]


def places_of(there: Sequence[bool] | Bool) -> Int:
    """For each row its place among those that are there, -1 for the others."""
    mask = np.asarray(there, dtype=np.bool_)
    places = np.full(len(mask), -1, dtype=np.int32)
    places[mask] = np.arange(np.count_nonzero(mask), dtype=np.int32)
    return places


def _there(parts: MetricColumns | SplitColumns, places: Int) -> list[Any]:
    """The values at *places* of the columns *parts*, None where that is -1."""
    listed: Iterator[Any] = iter(parts.listed(places[places >= 0]))
    return [next(listed) if place >= 0 else None for place in places.tolist()]
