"""All ops of a graph as columns, read slice by slice: nothing of a big graph is kept here.

A million ops go through these functions, so no Python value is made for a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphstore.columns.coded import Coded, Int, Lists, Numbers, starts
from graphstore.columns.link_columns import LinkColumns
from graphstore.columns.listed_ops import ListedOps, ListedResults, ListedTensors
from graphstore.columns.op_columns import places_of
from graphstore.columns.op_figures import FIGURES as GRAPH_FIGURES
from graphstore.columns.op_figures import WORST_IS_LEAST, OpFigures
from graphstore.columns.parts import (
    COUNTS,
    FIGURES,
    MetricColumns,
    Notes,
    OptionalNumbers,
    SplitColumns,
)
from graphstore.columns.run_outputs import RunOutputs
from graphstore.cypher import arrow_columns as arrow
from graphstore.model import (
    SPLIT_NUMBERS,
    DType,
    Guilt,
    Level,
    LineageLink,
    LineageRule,
    Metric,
    OpState,
    Reason,
    Role,
    Side,
    TensorIO,
)
from graphstore.schema import codec
from graphstore.schema.metric_values import choices

AskSlice: TypeAlias = Callable[[str, int, int], Any]
"""The answer of a named query, as an Arrow table, for the ops with topo from .. until."""

SLICE = 100_000
_NAN_OR_INF = 1e308
"""The distance of an output whose distance is not a number, for sorting."""
_PARTNERS = {Side.DEVICE: "listed_originals", Side.GOLDEN: "listed_device_ops"}
_DTYPES, _STATES, _LEVELS, _REASONS = map(choices, (DType, OpState, Level, Reason))


@dataclass(frozen=True, slots=True)
class Partners:
    """The other side of a run: the ids of all its ops, or how those of a few are asked for, and, by
    number of an op on this side, the partners in no graph, each with its place among all links."""

    ids: Sequence[str] | Callable[[Sequence[int]], Sequence[str]]
    loose: Mapping[int, Sequence[tuple[int, str]]]


def listed_ops(
    ask: AskSlice, side: Side, numbers: range, partners: Partners | None
) -> Iterator[ListedOps]:
    """The ops of these *numbers* behind *ask* in topo order.

    *partners* is None for an imported graph, which has no results and no partners.
    """
    linked = None if partners is None else _Linked(partners)
    for first in range(numbers.start, max(numbers.stop, numbers.start + 1), SLICE):
        until = min(first + SLICE, numbers.stop)
        ops = ask("listed_ops", first, until)
        lists, results = Lists(starts([0] * (until - first)), np.zeros(0, np.int32), ()), None
        if linked is not None:
            lists = linked.slice(ask(_PARTNERS[side], first, until), first, until)
            if side is Side.DEVICE:
                results = _results(ask("listed_results", first, until), first)
        yield ListedOps(
            first,
            arrow.coded(ops["own_name"], lambda text: text),
            arrow.coded(ops["type"], _text),
            arrow.coded(ops["subgraph"], _text),
            arrow.known(ops["originals"]),
            arrow.lists(ops["original_names"]),
            _tensors(ask("listed_tensors", first, until), first, until),
            lists,
            results,
        )


def op_figures(ask: AskSlice, count: int) -> OpFigures:
    """The states and figures of all *count* ops behind *ask*."""
    numbers = {name: np.full(count, np.nan) for name in GRAPH_FIGURES}
    states = []
    for first in range(0, max(count, 1), SLICE):
        until = min(first + SLICE, count)
        table = ask("op_figures", first, until)
        ops = arrow.integers(table["topo"])
        kinds = arrow.coded(table["state"], _STATES.__getitem__)
        codes = np.full(until - first, len(kinds.values), dtype=np.int32)
        codes[ops - first] = kinds.codes  # the same in all rows of an op
        states.append(Coded(codes, (*kinds.values, None)))
        is_output = arrow.coded(table["io"], TensorIO).equal(TensorIO.OUTPUT)
        for name, worst in numbers.items():
            pick = np.fmin if name == WORST_IS_LEAST else np.fmax
            pick.at(worst, ops[is_output], arrow.floats(table[name])[is_output])
    return OpFigures(Coded.joined(states), numbers)


def link_columns(
    table: Any, ids: Mapping[Side, Sequence[str]], loose: Sequence[tuple[int, LineageLink]]
) -> LinkColumns:
    """The links behind the rows of the query ``link_columns``."""
    numbers = {
        name: arrow.integers(table[name]).astype(np.int32)
        for name in ("device", "original", "device_port", "original_port")
    }
    return LinkColumns(
        ids,
        numbers["device"],
        numbers["original"],
        arrow.coded(table["evidence"], LineageRule),
        numbers["device_port"],
        numbers["original_port"],
        arrow.floats(table["confidence"]),
        arrow.integers(table["seq"]),
        loose,
    )


OUTPUT_COLUMNS = (
    *("topo", "port", "level", "cosine", "distance", "nan"),
    *("device_nonfinite", "golden_nonfinite", "elements", "different"),
)


def run_outputs(table: Any) -> RunOutputs:
    """The outputs behind the rows of the query ``run_outputs``, by topo and port."""
    whole = ("topo", "port", "device_nonfinite", "golden_nonfinite", "elements", "different")
    topo, port, device, golden, elements, different = (
        arrow.integers(table[name]) for name in whole
    )
    distance, level = arrow.floats(table["distance"]), arrow.coded(table["level"], _LEVELS.get)
    stand_in = np.where(device + golden > 0, _NAN_OR_INF, different / np.maximum(elements, 1))
    return RunOutputs(
        topo.astype(np.int32),
        port.astype(np.int32),
        level.equal(Level.FAIL),
        device > golden,
        distance,
        np.where(np.isnan(distance), stand_in, distance),
        level,
        arrow.floats(table["cosine"]),
        arrow.lists(table["nan"]),
    )


class _Linked:
    """Partners by slices; those in no graph have the numbers behind all others.

    Of a few ops only the partners are named, by numbers of their own.
    """

    def __init__(self, partners: Partners) -> None:
        self._loose = partners.loose
        names = dict.fromkeys(
            name for partner_names in partners.loose.values() for _, name in partner_names
        )
        self._ask = partners.ids if callable(partners.ids) else None
        ids = () if callable(partners.ids) else partners.ids
        self._number = {name: at for at, name in enumerate(names, start=len(ids))}
        self._names = (*ids, *names) if names else ids
        self._place_of: dict[int, int] = {}

    def _numbered(self, ops: Numbers) -> Numbers:
        """The numbers of the names of *ops*."""
        if self._ask is None:
            return ops
        fresh = [op for op in np.unique(ops).tolist() if op not in self._place_of]
        if fresh:
            self._place_of |= {op: at for at, op in enumerate(fresh, start=len(self._names))}
            self._names = (*self._names, *self._ask(fresh))
        return np.array([self._place_of[op] for op in ops.tolist()], dtype=np.int64)

    def slice(self, table: Any, first: int, until: int) -> Lists:
        """The partners of the ops first .. until, in the order of their links, each once."""
        topo, seq, partner = (arrow.integers(table[name]) for name in ("topo", "seq", "partner"))
        partner = self._numbered(partner)
        loose = [
            (op, place, self._number[name])
            for op, links in self._loose.items()
            if first <= op < until
            for place, name in links
        ]
        if loose:
            more = np.array(loose, dtype=np.int64)
            topo, seq, partner = (
                np.concatenate((column, more[:, at]))
                for at, column in enumerate((topo, seq, partner))
            )
        order = np.lexsort((seq, topo))
        topo, partner = topo[order] - first, partner[order]
        firsts = _first_of_each(topo * max(len(self._names), 1) + partner)
        topo, partner = topo[firsts], partner[firsts]
        counts = np.bincount(topo, minlength=until - first)
        return Lists(starts(counts), partner.astype(np.int32), self._names)


def _first_of_each(keys: Numbers) -> Any:
    """Which *keys* to keep so that each stays where it came first."""
    _, firsts = np.unique(keys, return_index=True)
    return slice(None) if len(firsts) == len(keys) else np.sort(firsts)


def _tensors(table: Any, first: int, until: int) -> ListedTensors:
    counts = np.bincount(arrow.integers(table["topo"]) - first, minlength=until - first)
    return ListedTensors(
        starts(counts),
        arrow.coded(table["shape"], codec.shape_value),
        arrow.coded(table["dtype"], _DTYPES.get),
        arrow.coded(table["layout"], lambda text: text),
    )


def _results(table: Any, first: int) -> ListedResults:
    compared, judged = arrow.truths(table["compared"]), arrow.known(table["role"])
    return ListedResults(
        (arrow.integers(table["topo"]) - first).astype(np.int32),
        arrow.coded(table["io"], TensorIO).equal(TensorIO.OUTPUT),
        arrow.integers(table["port"]).astype(np.int32),
        arrow.coded(table["state"], _STATES.__getitem__),
        arrow.coded(table["level"], _LEVELS.__getitem__),
        arrow.combinations(table["failed"], Metric),
        arrow.coded(table["reason"], _REASONS.__getitem__),
        arrow.coded(table["detail"], _text),
        arrow.coded(table["shape"], codec.shape_value),
        arrow.coded(table["device_dtype"], _DTYPES.get),
        places_of(compared),
        MetricColumns(
            {name: arrow.floats(table[name])[compared] for name in FIGURES},
            {name: arrow.integers(table[name])[compared] for name in COUNTS},
            arrow.coded(table["notes_json"], _notes).take(compared),
        ),
        places_of(judged),
        _splits(table, judged),
    )


def _splits(table: Any, judged: Any) -> SplitColumns:
    nan: Mapping[str, Int] = arrow.named_rows(table["nan"])
    numbers = {}
    for name in SPLIT_NUMBERS:
        is_set = arrow.known(table[name])
        if name in nan:
            is_set = is_set.copy()
            is_set[nan[name]] = True
        numbers[name] = OptionalNumbers(arrow.floats(table[name])[judged], is_set[judged])

    return SplitColumns(
        # null only in rows without a split
        arrow.coded(table["role"], lambda text: Role(text or Role.UNKNOWN)).take(judged),
        arrow.coded(table["guilt"], lambda text: Guilt(text or Guilt.NONE)).take(judged),
        numbers,
        arrow.coded(table["failure"], _text).take(judged),
    )


def _notes(text: str | None) -> Notes:
    """As the codec keeps them: by metric, in their order."""
    if text is None:
        return ()
    return tuple((Metric(name), note) for name, note in json.loads(text).items())


def _text(text: str | None) -> str:
    return text or ""
