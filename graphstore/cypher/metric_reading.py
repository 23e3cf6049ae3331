"""The rows of the table Metric read from a store, column by column."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from graphstore.contract import QueryResult
from graphstore.cypher.queries import Dialect

AskSlice: TypeAlias = Callable[[str, int, int], QueryResult]
"""The rows of a named query for the tensors from .. until by their place in the run."""
MetricColumns: TypeAlias = Mapping[str, Sequence[Any]]

_SLICE = {Dialect.NEO4J: 20_000, Dialect.EMBEDDED: 50_000}
"""Rows asked for at once, so that no answer gets too big."""


def metric_columns(ask: AskSlice, dialect: Dialect) -> Iterator[MetricColumns]:
    """All tensors of a run in saved order, a slice at a time: values by the columns of the
    query ``run_metrics``."""
    size = _SLICE[dialect]
    for first in itertools.count(0, size):
        if dialect is Dialect.EMBEDDED:
            answer = ask("metric_columns", first, first + size)
            columns = _with_ops(columns_of(answer), ask, first, first + size)
        else:
            answer = ask("run_metrics", first, first + size)
            columns = columns_of(answer)
        if answer.rows:
            yield columns
        if len(answer.rows) < size:
            return


def columns_of(answer: QueryResult) -> MetricColumns:
    """The values of an answer by column."""
    values = zip(*answer.rows, strict=True) if answer.rows else itertools.repeat(())
    return dict(zip(answer.columns, values, strict=False))


def _with_ops(columns: MetricColumns, ask: AskSlice, first: int, until: int) -> MetricColumns:
    """In saved order, with the ops: looked up beside the wide rows, not joined to them."""
    places = columns["seq"]
    if any(one > other for one, other in itertools.pairwise(places)):
        order = [at for at, _ in sorted(enumerate(places), key=itemgetter(1))]
        columns = {name: [values[at] for at in order] for name, values in columns.items()}
        places = columns["seq"]
    ops: dict[int, str] = dict(ask("metric_ops", first, until).rows)  # type: ignore[arg-type]
    partner_of: dict[int, str] = dict(ask("metric_partners", first, until).rows)  # type: ignore[arg-type]
    return {
        **columns,
        "op": [ops[place] for place in places],
        "golden_op": list(map(partner_of.get, places, columns["golden_op"])),
    }
