"""Expressions of plain queries on whole columns, as Cypher means them: null is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.cypher import arrow_columns as arrow
from graphstore.cypher.parsed_query import (
    Expression,
    Literal,
    Match,
    Operation,
    Property,
    QueryParameter,
    Subquery,
)

_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_AGGREGATES = ("count", "max")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Values of expressions: *read* gives a property or, without a name, a column; *exists* says
    where a subquery has rows."""

    read: Callable[[str, str | None], Any]
    params: Mapping[str, object]
    exists: Callable[[Match], Any] | None

    def value(self, what: Expression) -> Any:
        """A column, or one value for all rows."""

        if isinstance(what, Literal):
            return _scalar(what.value)
        if isinstance(what, QueryParameter):
            value = self.params[what.name]
            # an empty list has no type
            return arrow.array_of(value) if isinstance(value, list) else _scalar(value)
        if isinstance(what, Property):
            return self.read(what.variable, what.name)
        if isinstance(what, Subquery):
            assert self.exists is not None
            return self.exists(what.match)
        return self._operation(what.name, [self.value(part) for part in what.of])

    def _operation(self, name: str, of: list[Any]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        if name in _COMPARISONS:
            return _of_texts(lambda one: getattr(pc, _COMPARISONS[name])(one, _plain(of[1])), of[0])
        if name == "IN":
            return _of_texts(lambda one: _is_in(one, of[1]), of[0])
        if name == "NOT":
            return pc.invert(of[0])
        if name in ("AND", "OR"):
            return (pc.and_kleene if name == "AND" else pc.or_kleene)(*of)
        if name.startswith("IS "):
            return pc.is_null(of[0]) if name == "IS NULL" else pc.is_valid(of[0])
        plain = [_plain(one) for one in of]
        if name == "coalesce":
            return pc.coalesce(*plain)
        if name == "cast":
            return plain[0].cast(pa.string())
        if name == "CASE":
            *pairs, value = plain
            for at in range(len(pairs) - 2, -1, -2):
                is_so = pc.fill_null(pairs[at], _scalar(False))
                value = pc.if_else(is_so, pairs[at + 1], value)
            return value
        if pa.types.is_string(plain[0].type):
            return pc.binary_join_element_wise(*plain, "")
        whole = [one.cast(pa.int64()) if pa.types.is_integer(one.type) else one for one in plain]
        return (pc.add if name == "+" else pc.subtract)(*whole)

    def items(
        self, items: Sequence[tuple[str, Expression]], size: int, *, distinct: bool
    ) -> dict[str, Any]:
        """The columns of *size* rows, or of a row for each of their groups."""
        import pyarrow as pa
        import pyarrow.compute as pc

        counted = {
            name: value
            for name, value in items
            if isinstance(value, Operation) and value.name in _AGGREGATES
        }
        columns = {name: self._column(value, size) for name, value in items if name not in counted}
        if not counted and not distinct:
            return columns
        grouped = {name: _plain(column) for name, column in columns.items()}
        functions = []
        for name, value in counted.items():
            mode = "only_valid"
            if value.of:
                grouped[f"of {name}"] = _plain(self._column(value.of[0], size))
            else:
                grouped[f"of {name}"], mode = pa.nulls(size), "all"
            function = "count_distinct" if value.distinct else value.name
            options = None if function == "max" else pc.CountOptions(mode=mode)
            functions.append((f"of {name}", function, options))
        if not columns:
            return {name: _reduced(value, grouped[f"of {name}"]) for name, value in items}
        rows = pa.table(grouped).group_by([*columns], use_threads=False).aggregate(functions)
        places = {name: at for at, name in enumerate(columns, start=len(functions))}
        if rows.column_names[: len(columns)] == [*columns]:
            places = {name: at for at, name in enumerate(columns)}
        results = {
            name: rows.column(f"of {name}_{function}")
            for name, (_, function, _) in zip(counted, functions, strict=True)
        }
        return {
            name: results[name] if name in counted else rows.column(places[name])
            for name, _ in items
        }

    def _column(self, what: Expression, size: int) -> Any:
        import pyarrow as pa

        value = self.value(what)
        return pa.repeat(value, size) if isinstance(value, pa.Scalar) else value

    def order(self, keys: Sequence[tuple[Expression, bool]], size: int) -> NDArray[np.int64]:
        """The places of *size* rows in the order of *keys*; equal ones as they are. Null is the
        greatest value."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns: dict[str, Any] = {}
        directions = []
        for at, (key, descending) in enumerate(keys):
            column = _plain(self._column(key, size))
            direction = "descending" if descending else "ascending"
            if column.null_count:
                columns[f"{at} null"] = pc.is_null(column).cast(pa.int8())
                directions.append((f"{at} null", direction))
            columns[str(at)] = column
            directions.append((str(at), direction))
        if _is_in_order(columns, directions):
            return np.arange(size)
        return arrow.integers(pc.sort_indices(pa.table(columns), sort_keys=directions))


def filtered(conditions: Sequence[Expression], evaluation: Evaluation) -> NDArray[np.bool_] | None:
    """Where all conditions are true; None, if there are none. What others exclude is not read."""
    fits: NDArray[np.bool_] | None = None
    for condition in conditions:
        is_so = arrow.truths(evaluation.value(condition))
        fits = is_so if fits is None else fits & is_so
        if not fits.any():
            break
    return fits


def _reduced(value: Expression, column: Any) -> Any:
    """One value of all rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert isinstance(value, Operation)
    if value.name == "max":
        return pa.repeat(pc.max(column), 1)
    counted = column.drop_null() if value.of else column
    return arrow.array_of([_different(counted) if value.distinct else len(counted)])


def _different(column: Any) -> int:
    """How many different values a column has."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type):
        return len(column.unique())
    numbers = np.sort(arrow.integers(column))  # a tenth of the time of hashes of a million
    return int(np.count_nonzero(np.diff(numbers))) + (len(numbers) > 0)


def _scalar(value: object) -> Any:
    """One value in Arrow."""
    import pyarrow as pa

    return pa.nulls(1)[0] if value is None else arrow.array_of([value])[0]


def _is_in_order(columns: Mapping[str, Any], directions: Sequence[tuple[str, str]]) -> bool:
    """True if rows stand in the order of their first key already, each with another value."""
    import pyarrow as pa

    name, direction = directions[0] if directions else ("", "")
    if not name:
        return True
    column = columns[name]
    if direction == "descending" or not pa.types.is_integer(column.type):
        return False
    values = arrow.integers(column)
    return bool(np.all(values[1:] > values[:-1]))


def _of_texts(judge: Callable[[Any], Any], column: Any) -> Any:
    """What *judge* says of a column: of texts that come again and again, once for each."""
    import pyarrow as pa

    if isinstance(column, pa.DictionaryArray):
        return judge(column.dictionary).take(column.indices)
    return judge(column)


def _is_in(column: Any, values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(values):
        return pa.repeat(_scalar(False), len(column))
    if pa.types.is_integer(values.type):
        column = column.cast(pa.int64())
    return pc.is_in(column, value_set=values)


def _plain(value: Any) -> Any:
    """A column of values, which may have been kept as places among the different ones."""
    import pyarrow as pa

    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if pa.types.is_dictionary(value.type):
        return value.cast(value.type.value_type)
    return value
