"""The limits and parameters of a query: rows, seconds, values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher.queries import WINDOWED, Dialect, NamedQuery, is_name, load
from graphstore.cypher.text import explained, parameters, tokens
from graphstore.errors import QueryError

_WIDE = 2**40
"""A number that ladybug takes for an INT64, as ids are."""
_LARGEST = 2**63 - 1
_MOST_ROWS = "most_rows"
"""The parameter of a query that has no limit of its own."""
_TARGET = ("run", "graph", "device", "golden")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """At most ``limit`` rows and ``timeout`` seconds (None: any); a way to stop it."""

    limit: int | None = None
    timeout: float | None = None
    cancellation: Cancellation | None = None


NO_LIMITS = QueryLimits()


def limited(query: NamedQuery, limit: int | None) -> tuple[NamedQuery, dict[str, object]]:
    """*query* limited to one row more than *limit*, which shows that there are more, and the value
    of its limit parameter: a server then keeps one plan for all limits."""
    if limit is None or re.search(r"\bLIMIT \$?\w+$", query.text):
        return query, {}
    rows_wanted = min(limit + 1, _LARGEST)
    return replace(query, text=f"{query.text}\nLIMIT ${_MOST_ROWS}"), {_MOST_ROWS: rows_wanted}


def as_limited(query: NamedQuery, values: Mapping[str, object]) -> NamedQuery:
    """*query* with the limit for which *values*, made beside :func:`limited`, has a number."""
    return limited(query, 0)[0] if _MOST_ROWS in values else query


def cut(answer: QueryResult, limit: int | None) -> QueryResult:
    """*answer* cut to *limit* rows."""
    if limit is None or len(answer.rows) <= limit:
        return answer
    return replace(answer, rows=answer.rows[:limit], truncated=True)


def windows(limit: int | None, ops: int) -> Iterator[int]:
    """The first ops of a graph of *ops* to look for *limit* rows in, more and more of them."""
    end = ops if limit is None else min(ops, 2 * limit + 2)
    while end < ops:
        yield end
        end = min(ops, 8 * end)
    yield ops


def window_values(
    text: str, first_node: int, end: int, edge: tuple[int, int] | None = None
) -> dict[str, object]:
    """The parameters among WINDOWED that *text* has, for the ops before *end*.

    *first_node* is the node id of op 0. With *edge*, (source, target) numbers, only edges up
    to that one by source, then target, are asked for.
    """
    source, target = (end, -1) if edge is None else edge
    end = min(end, source + 1)
    values: Mapping[str, object] = {
        "end_topo": end,
        "whole_topo": source,
        "end_target": target + 1,
        "first_node": first_node,
        "end_node": first_node + end,
    }
    return {name: value for name, value in values.items() if re.search(rf"\${name}\b", text)}


def planned_text(cypher: str, dialect: Dialect) -> str:
    """The text to plan for *cypher*, which may be a query's name or start with EXPLAIN."""
    return load(cypher, dialect).text if is_name(cypher) else explained(cypher) or cypher


def planned_values(cypher: str, dialect: Dialect) -> dict[str, object]:
    """Values with which a named query can be planned: engines need to know their types."""
    if not is_name(cypher):
        return {}
    query = load(cypher, dialect)
    values: dict[str, object] = {name: _WIDE for name in WINDOWED if f"${name}" in query.text}
    for name, kind in query.parameters.items():
        values[name] = [_WIDE] if kind.endswith("ops") else "" if kind == "text" else _WIDE
    return values


def check_parameters(cypher: str, values: Mapping[str, object]) -> None:
    """Return if every parameter of *cypher* has a value.

    ladybug treats a comparison with a missing parameter as true, and answers wrongly.

    Raises:
        QueryError: one has none; says which and where.
    """
    for name, position in parameters(tokens(cypher)).items():
        if name not in values:
            hint = "ask one run or graph: it sets $run, $graph, $device and $golden"
            raise QueryError(
                f"the parameter ${name} has no value",
                position=position,
                hint=hint if name in _TARGET else f"give it as {name}=VALUE",
            )


def plain_parameter(name: str, kind: str, value: object) -> object:
    """*value* for a parameter of a named query: text, a number, or a list of texts.

    Raises:
        QueryError: it is of another kind.
    """
    if kind == "number":
        if isinstance(value, bool) or not isinstance(value, int):
            raise QueryError(f"${name} is a whole number, not {value!r}")
        return value
    if kind == "factor":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise QueryError(f"${name} is a number, not {value!r}")
        return value
    if kind.endswith("ops"):
        listed = list(value) if isinstance(value, list | tuple) else [value]
        return [str(one) for one in listed]
    if value is None or isinstance(value, list | tuple | dict):
        raise QueryError(f"${name} is a text, not {value!r}")
    return str(value)
