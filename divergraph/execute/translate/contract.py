"""What a translation of one op is: a row that adds ONNX nodes to a piece.

A framework's table (:class:`OpRows`) has one row per op type. A row is called with a :class:`Piece
<divergraph.execute.translate.piece.Piece>`: the op with its attributes and what is known of its
inputs, and gives the names of what it made, one per output of the op. Rows are the only place that
knows what an op computes; shapes, constants, memory and running are told once, around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from divergraph.values.array_types import Array

if TYPE_CHECKING:
    from divergraph.execute.translate.piece import Expr, Outputs, Piece

Row: TypeAlias = "Callable[[Piece], Outputs]"
"""Adds the nodes of one op to a piece; gives each output, None for one that this run does not make
(the other side of a branch)."""

Formula: TypeAlias = "Callable[..., Expr | Outputs]"
"""A row as a formula of its inputs, in order, and its attributes: the parameters that are given by
keyword alone, whose defaults count where the op says nothing."""


@dataclass(frozen=True, slots=True)
class KnownTensor:
    """What is known of a tensor while its readers are translated: its element type, its shape (None
    if that follows only from values), and its value if that is a constant."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = None
    value: Array | None = None

    @classmethod
    def of(cls, value: Array) -> KnownTensor:
        """All of a constant."""
        return cls(value.dtype, value.shape, value)

    @property
    def nbytes(self) -> int | None:
        """Its size; None while the shape is unknown."""
        if self.shape is None:
            return None
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class NotTranslatedError(Exception):
    """An op that has no row, or whose row does not cover this case; the text says which."""


class NeedsValueError(Exception):
    """A row needs to know the value or the shape of ``tensor``, which follows only from running
    what is before it."""

    def __init__(self, tensor: str) -> None:
        super().__init__(f"needs the value of {tensor!r}")
        self.tensor = tensor


@dataclass(frozen=True, slots=True)
class RowEntry:
    """One row of a table: the function, where the op is defined, and whether it runs though some
    of its inputs were not made (what joins branches)."""

    row: Row
    source: str
    joins: bool = False


def attributes_of(piece: Piece, formula: Formula) -> dict[str, Any]:
    """The attributes of an op that a *formula* asks for."""
    named = [each for each in parameters_of(formula) if each.kind is Parameter.KEYWORD_ONLY]
    usual = {each.name: None if each.default is each.empty else each.default for each in named}
    return {name: piece.attr(name, default) for name, default in usual.items()}


def inputs_of(piece: Piece, formula: Formula) -> Sequence[Expr]:
    """The inputs of an op that a *formula* asks for."""
    kinds = [each.kind for each in parameters_of(formula)]
    is_open = Parameter.VAR_POSITIONAL in kinds
    count = len(piece) if is_open else kinds.count(Parameter.POSITIONAL_OR_KEYWORD)
    return [piece.name(at) for at in range(count)]


@cache
def parameters_of(formula: Formula) -> tuple[Parameter, ...]:
    """The parameters of a *formula*."""
    return tuple(signature(formula).parameters.values())


@dataclass(frozen=True, slots=True)
class OpRows:
    """The table of one framework: its op types with their rows. ``read`` gives the inputs that a
    formula asks for."""

    framework: str
    entries: dict[str, RowEntry] = field(default_factory=dict)
    read: Callable[[Piece, Formula], Sequence[Expr]] = inputs_of

    def row(self, *types: str, source: str, joins: bool = False) -> Callable[[Row], Row]:
        """Put the decorated function into the table, for these op *types*.

        *source* says where the op is defined: a file or page of the framework.
        """

        def put(row: Row) -> Row:
            for op_type in types:
                if op_type in self.entries:
                    raise ValueError(f"two rows for {op_type}")
                self.entries[op_type] = RowEntry(row, source, joins)
            return row

        return put

    def formula(self, *types: str, source: str) -> Callable[[Formula], Formula]:
        """As :meth:`row`, of a formula."""

        def put(formula: Formula) -> Formula:
            def row(piece: Piece) -> Outputs:
                made = formula(*self.read(piece, formula), **attributes_of(piece, formula))
                return made if isinstance(made, Sequence) else [made]

            self.row(*types, source=source)(row)
            return formula

        return put

    def formulas(self, by_types: Mapping[str, Formula], source: str) -> None:
        """The formulas of ops by their types, of which a key may list several."""
        for types, formula in by_types.items():
            self.formula(*types.split(), source=source)(formula)

    def same(self, pairs: Mapping[str, str], source: str) -> None:
        """Rows of ops that one ONNX op of the same inputs computes, by their types."""
        for kind, onnx_kind in pairs.items():
            for op_type in kind.split():
                self.row(op_type, source=source)(_one_node(onnx_kind))

    def __contains__(self, kind: str) -> bool:
        return kind in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.entries))


def _one_node(onnx_kind: str) -> Row:
    def row(piece: Piece) -> Outputs:
        return [piece.add(onnx_kind, *piece.names)]

    return row
