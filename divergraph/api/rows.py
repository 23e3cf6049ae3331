"""Many answers of one kind: a sequence that is also a table."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import reduce
from html import escape
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints
from typing import overload as _overload

from divergraph.text.printable import printable
from divergraph.text.words import counted
from graphstore.errors import InputError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_T = TypeVar("_T")
_SHOWN = 20
_PLAIN = {bool: "bool", int: "int64", float: "float64", str: "string"}


@dataclass(frozen=True, slots=True)
class _RowColumn:
    """A column: its name, its type as Arrow names it, and how a row gives its value."""

    name: str
    kind: str
    is_list: bool
    value: Callable[[object], Any]


class Rows(Sequence[_T], Generic[_T]):
    """A sequence of frozen answers, and a table of them.

    As a table, parts of an answer become columns of their own: ``row.metrics.cosine_similarity`` is
    the column ``cosine_similarity``, prefixed with the part's name if two would have the same name.
    Unknown values are null. Mappings have no column.

    >>> import divergraph as dg
    >>> rows = dg.demo().ops("state:origin")
    >>> rows
    <1 OpRow>
    >>> rows[0].id
    'LeNet/conv2/Conv2DRelu'
    >>> rows.to_arrow()["state"].to_pylist()
    ['origin']
    """

    def __init__(self, kind: type[_T], items: Iterable[_T]) -> None:
        self._kind = kind
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    @_overload
    def __getitem__(self, place: int) -> _T: ...
    @_overload
    def __getitem__(self, place: slice) -> Rows[_T]: ...
    def __getitem__(self, place: int | slice) -> _T | Rows[_T]:
        if isinstance(place, slice):
            return Rows(self._kind, self._items[place])
        return self._items[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._items == other._items

    __hash__ = None  # type: ignore[assignment]  # the answers may hold mappings

    def __repr__(self) -> str:
        return f"<{counted(len(self._items), self._kind.__name__)}>"

    def _repr_html_(self) -> str:
        return self.html(_SHOWN)

    def html(self, most: int) -> str:
        """The first *most* rows as an HTML table, without columns in which nothing is known."""
        rows = self._items[:most]
        cells = [(column.name, [column.value(row) for row in rows]) for column in self._columns()]
        columns = [(name, values) for name, values in cells if any(map(_says_something, values))]
        head = "".join(f"<th>{escape(name)}</th>" for name, _ in columns)
        lines = [
            "".join(f"<td>{_html(values[place])}</td>" for _, values in columns)
            for place in range(len(rows))
        ]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        more = len(self._items) - len(rows)
        rest = f"<p>and {more} more</p>" if more else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def to_arrow(self) -> pa.Table:
        """The table as ``pyarrow.Table``: int64, float64, string, bool, and lists of these."""
        import pyarrow as pa

        columns = self._columns()
        kinds = [pa.type_for_alias(column.kind) for column in columns]
        schema = pa.schema(
            (column.name, pa.list_(kind) if column.is_list else kind)
            for column, kind in zip(columns, kinds, strict=True)
        )
        arrays = [
            pa.array([column.value(row) for row in self._items], field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as ``pandas.DataFrame``.

        Raises:
            InputError: pandas is not installed.
        """
        _installed("pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as ``polars.DataFrame``.

        Raises:
            InputError: polars is not installed.
        """
        frame: polars.DataFrame = _installed("polars").from_arrow(self.to_arrow())
        return frame

    def _columns(self) -> tuple[_RowColumn, ...]:
        return _columns_of(self._kind)


def _installed(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(
            f"{package} is not installed", hint=f"pip install {package}, or take to_arrow()"
        ) from error


def _columns_of(kind: type) -> tuple[_RowColumn, ...]:
    """The columns of a dataclass, each named by the shortest end of its path that is unique."""
    leaves = list(_leaves(kind, ()))
    ends = [path[-length:] for path, _, _ in leaves for length in range(1, len(path) + 1)]
    columns = []
    for path, plain, is_list in leaves:
        lengths = range(1, len(path) + 1)
        clear = (n for n in lengths if len(path) == n or ends.count(path[-n:]) == 1)
        name = "_".join(path[-next(clear) :])
        columns.append(_RowColumn(name, plain, is_list, _reader(path)))
    return tuple(columns)


def _leaves(kind: type, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], str, bool]]:
    hints = get_type_hints(kind)
    for field in fields(kind):
        here = (*path, field.name)
        hint = _without_none(hints[field.name])
        origin = get_origin(hint)
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _leaves(hint, here)
        elif origin is tuple:
            yield here, _PLAIN.get(_without_none(get_args(hint)[0]), "string"), True
        elif not (isinstance(origin, type) and issubclass(origin, Mapping)):
            yield here, _PLAIN.get(hint, "string"), False


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [arg for arg in get_args(hint) if arg is not type(None)]
        return kinds[0] if len(kinds) == 1 else object
    return hint


def _reader(path: tuple[str, ...]) -> Callable[[object], Any]:
    def read(row: object) -> Any:
        value = reduce(lambda part, name: None if part is None else getattr(part, name), path, row)
        return _cell(value)

    return read


def _cell(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value if isinstance(value, str) else value.name.lower()
    if isinstance(value, tuple):
        return [_cell(element) for element in value]
    if isinstance(value, PurePath) or is_dataclass(value):
        return str(value)
    return value


def _says_something(value: Any) -> bool:
    return value is not None and value not in ("", [])


def _html(value: Any) -> str:
    if value is None:
        return ""
    text = format(value, ".6g") if isinstance(value, float) else str(value)
    return escape(printable(text))
