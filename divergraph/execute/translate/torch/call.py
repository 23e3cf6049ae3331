"""A PyTorch call on its way to ONNX: its arguments by place or keyword, tensors and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from divergraph.execute.translate.contract import Formula, NotTranslatedError, OpRows, parameters_of
from divergraph.execute.translate.piece import (
    ArgumentKind,
    Expr,
    Operand,
    Outputs,
    Piece,
    ReadArgument,
)
from divergraph.execute.translate.torch.alone import (
    CALLS,
    GIVES,
    GRADIENT,
    MADE,
    PARAMETER,
    TAKEN,
)
from graphstore.model import AttrValue
from importers.msprobe.calls import BY_ARGUMENT
from importers.msprobe.graph import ARGUMENTS

ROWS = OpRows("pytorch")
"""PyTorch's calls with their rows, by the type of their op in a recorded run."""
DOCS = "PyTorch documentation, {}"

BACK, OF_PARAMETERS = ".backward", ".parameters_grad"
"""What ends the type of a call's way back, and of the gradients of a module's parameters."""

TorchRow: TypeAlias = "Callable[[TorchCall], Outputs]"


def row(*types: str, source: str) -> Callable[[TorchRow], TorchRow]:
    """Put the decorated function into PyTorch's table for calls of these *types*; *source* is the
    page of the documentation that defines them."""

    def put(made: TorchRow) -> TorchRow:
        ROWS.row(*types, source=DOCS.format(source))(partial(_translated, made))
        return made

    return put


def _translated(of_op: TorchRow, piece: Piece) -> Outputs:
    """What the row *of_op* for the op of *piece* gives; of a module that is one call of a function
    the row of that, which asks for all arguments."""
    call, own = TorchCall(piece), piece.op
    function = str(own.attrs.get(CALLS, own.type))
    if function == own.type or call.type != own.type or function not in ROWS:
        return of_op(call)
    piece.op = replace(own, type=function)
    try:
        return ROWS.entries[piece.op.type].row(piece)
    finally:
        piece.op = own


def formulas(by_types: Mapping[str, Formula], source: str) -> None:
    """Rows that are formulas, by the types of their calls: of ``input``, of the arguments that are
    called as the other parameters, and of numbers, flags and words where those have defaults."""
    for types, formula in by_types.items():
        row(*types.split(), source=source)(partial(TorchCall.given_to, formula=formula))


def spelled(*names: str) -> tuple[str, ...]:
    """Each name as a function and as the method that works in place: ``mul``, ``mul_``."""
    return tuple(each for name in names for each in (name, f"{name}_"))


class TorchCall:
    """One call: what it takes is asked for by position and keyword (``0, "input"``).

    Tensors are names in the piece, other arguments plain values.
    """

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.type = piece.op.type.removesuffix(BACK).removesuffix(OF_PARAMETERS)
        self._ports = {str(place): at for at, place in enumerate(self._places(ARGUMENTS))}

    # tensors

    def find(self, at: int | str, keyword: str = "") -> Expr | None:
        """The name of a tensor; None if this argument is none."""
        port = self._port(at, keyword)
        return None if port is None else self.piece.name(port)

    def tensor(self, at: int | str = 0, keyword: str = "input") -> Expr:
        """The name of a tensor.

        Raises:
            NotTranslatedError: the call was given none.
        """
        return self.piece.name(self._needed(at, keyword))

    def tensors(self, at: int, keyword: str = "tensors") -> list[Expr]:
        """The names of a list of tensors."""
        begins = f"{at}.", f"{keyword}."
        ports = [port for place, port in self._ports.items() if place.startswith(begins)]
        if not ports:
            raise self.refused(f"has no list of tensors in place {at}")
        return [self.piece.name(port) for port in ports]

    def taken(self) -> dict[str, str]:
        """The names of the tensors the call took, by place, a module's parameters among them."""
        return {
            place: self.piece.names[port]
            for place, port in self._ports.items()
            if not place.startswith((GRADIENT, MADE))
        }

    def places(self, at: int) -> list[str]:
        """The places of the elements of a list that has a tensor, such as ``1.0``; of those given
        as None, too, but for the last ones, which a dump may leave out."""
        begin = f"{at}."
        attributes = (name.removeprefix(TAKEN) for name in self.piece.op.attrs)
        numbers = [
            int(place.removeprefix(begin))
            for place in (*self._ports, *attributes)
            if place.startswith(begin) and place.removeprefix(begin).isdecimal()
        ]
        return [f"{begin}{number}" for number in range(max(numbers, default=-1) + 1)]

    def shape(self, at: int | str = 0, keyword: str = "input") -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.piece.shape(self._needed(at, keyword))

    def dtype(self, at: int | str = 0, keyword: str = "input") -> np.dtype[Any]:
        """The element type of a tensor as it is computed here: no type of 16 bits."""
        return self.piece.dtype(self._needed(at, keyword))

    def gradient(self, at: int = 0) -> Expr:
        """The gradient by output *at*, which came in on the way back."""
        return self.tensor(f"{GRADIENT}{at}")

    def gradient_shape(self, at: int = 0) -> tuple[int, ...]:
        """Its shape."""
        return self.shape(f"{GRADIENT}{at}")

    def made(self, at: int = 0) -> Expr:
        """Output *at* of the way there."""
        return self.tensor(f"{MADE}{at}")

    def parameter(self, name: str) -> Expr | None:
        """A module's parameter; None if it has none such."""
        return self.find(f"{PARAMETER}{name}")

    @property
    def result(self) -> np.dtype[Any]:
        """The element type of the output as it is computed here."""
        outputs = self.piece.op.outputs
        dtype = outputs[0].dtype.numpy if outputs and outputs[0].dtype else None
        return np.dtype(np.float32) if dtype is None else dtype

    def recorded_sizes(self) -> tuple[int, ...]:
        """The sizes of the first output, as they were recorded.

        Raises:
            NotTranslatedError: they were not.
        """
        outputs = self.piece.op.outputs
        shape = outputs[0].shape if outputs else None
        if shape is None or None in shape:
            raise self.refused("has no recorded shape")
        return tuple(int(size or 0) for size in shape)

    @property
    def working(self) -> np.dtype[Any]:
        """The type the call computes in: that of its output, or for one of another kind (an index,
        a truth value) that of its input."""
        if self.result.kind == "f":
            return self.result
        result = self.dtype() if self._port(0, "input") is not None else self.result
        return result if result.kind in "fi" else np.dtype(np.int64)

    def operand(self, at: int, keyword: str, dtype: np.dtype[Any] | None = None) -> Expr:
        """A tensor or a number, in the type the call computes in."""
        dtype = dtype or self.working
        port = self._port(at, keyword)
        if port is None:
            return self.constant(self.number(at, keyword), dtype)
        name = self.piece.name(port)
        return name if self.piece.dtype(port) == dtype else self.piece.cast(name, dtype)

    def given_to(self, formula: Formula) -> Outputs:
        """What *formula* makes of the call's arguments."""
        given: list[Any] = []
        named: dict[str, Any] = {}
        for place, each in enumerate(parameters_of(formula)):
            at = None if each.kind is each.KEYWORD_ONLY else place
            if each.default is each.empty:
                given.append(self.operand(place, "input" if place == 0 else each.name))
            elif isinstance(each.default, str):
                named[each.name] = self.word(at, each.name, each.default)
            else:
                named[each.name] = self.number(at, each.name, each.default)
        made = formula(*given, **named)
        return [made] if isinstance(made, Expr) else made

    # other arguments

    def argument(self, at: int | None, keyword: str) -> AttrValue | None:
        """An argument that is no tensor; None if it was not given, or as None. A list is a tuple
        whether the dump has it as one value or one by one."""
        for place in ("" if at is None else str(at), keyword):
            if not place:
                continue
            result = self.piece.op.attrs.get(f"{TAKEN}{place}")
            if result is not None:
                return result
            begin = f"{TAKEN}{place}."
            listed = [
                value for name, value in self.piece.op.attrs.items() if name.startswith(begin)
            ]
            if listed:
                return tuple(listed)
        return None

    def number(self, at: int | None, keyword: str, default: float | None = None) -> float:
        """A number.

        Raises:
            NotTranslatedError: there is none, nor a default.
        """
        value = self._number(at, keyword, default)
        self._read(at, keyword, ArgumentKind.NUMBER, float(value))
        return value

    def _number(self, at: int | None, keyword: str, default: float | None) -> float:
        value = self.argument(at, keyword)
        value = default if value is None else value
        if not isinstance(value, int | float):
            raise self.refused(f"has {keyword}: {value}")
        return value

    def integer(self, at: int | None, keyword: str, default: int | None = None) -> int:
        """A whole number: a size or a count."""
        return int(self._number(at, keyword, default))

    def flag(self, at: int | None, keyword: str, default: bool = False) -> bool:
        """Yes or no."""
        value = self.argument(at, keyword)
        value = default if value is None else bool(value)
        self._read(at, keyword, ArgumentKind.FLAG, value)
        return value

    def word(self, at: int | None, keyword: str, default: str) -> str:
        """A word."""
        value = self.argument(at, keyword)
        value = default if value is None else str(value)
        self._read(at, keyword, ArgumentKind.WORD, value)
        return value

    def integers(
        self, at: int | None, keyword: str, default: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """A list of whole numbers; one alone is a list of one.

        Raises:
            NotTranslatedError: there is none, nor a default.
        """
        value = self.argument(at, keyword)
        if value is None and default is not None:
            return default
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(each, int) for each in values):
            raise self.refused(f"has {keyword}: {value}")
        return tuple(int(each) for each in values)  # type: ignore[arg-type]

    def rest(self, at: int, keyword: str) -> tuple[int, ...]:
        """Whole numbers given one by one from place *at* on, or as a list: ``view(2, -1)``."""
        if self.argument(at + 1, "") is None:
            return self.integers(at, keyword)
        result = []
        while (value := self.argument(at, "")) is not None:
            if not isinstance(value, int):
                raise self.refused(f"has {keyword}: {value}")
            result.append(value)
            at += 1
        return tuple(result)

    def axis(self, at: int | None, keyword: str, default: int | None = None, rank: int = -1) -> int:
        """An axis of the first tensor, counted from the front."""
        (axis,) = self.axes_of((self.integer(at, keyword, default),), rank)
        self._read(at, keyword, ArgumentKind.AXIS, axis)
        return axis

    def axes(self, at: int | None, keyword: str) -> tuple[int, ...]:
        """Axes of the first tensor, counted from the front; all of them where none is given."""
        result = self.integers(at, keyword, ())
        return self.axes_of(result) if result else tuple(range(len(self.shape())))

    def axes_of(self, axes: Iterable[int], rank: int = -1) -> tuple[int, ...]:
        """*axes* counted from the front.

        Raises:
            NotTranslatedError: the first tensor has no such axis.
        """
        rank = len(self.shape()) if rank < 0 else rank
        result = tuple(axes)
        if not all(-max(rank, 1) <= each < max(rank, 1) for each in result):
            raise self.refused(f"has axes {result} of a tensor of {rank}")
        return tuple(each % max(rank, 1) for each in result)

    # what it makes

    def add(self, kind: str, *inputs: Operand, **attrs: Any) -> Expr:
        """Add a node with one output and give the output's name."""
        return self.piece.add(kind, *inputs, **attrs)

    def constant(self, value: Any, dtype: Any = None) -> Expr:
        """A constant in the type the call computes in, or in *dtype*."""
        return self.piece.const(np.asarray(value, self.working if dtype is None else dtype))

    def cast(self, tensor: Expr) -> Expr:
        """*tensor* in the type of the output."""
        return self.piece.cast(tensor, self.result)

    def reduced(self, kind: str, tensor: Expr, axes: Sequence[int], *, keep: bool = False) -> Expr:
        """*tensor* reduced along *axes*, or all of them; sums are added up in double precision."""
        listed = self.piece.ints(*axes) if axes else None
        if kind in ("ReduceMax", "ReduceMin"):
            return self.add(kind, tensor, listed, keepdims=int(keep))
        result = self.add(kind, self.piece.cast(tensor, np.float64), listed, keepdims=int(keep))
        return self.piece.cast(result, self.working if self.working.kind == "f" else self.result)

    @property
    def is_by_argument(self) -> bool:
        """Whether the gradients of a call of several nodes are its own, not those of a node."""
        return any(place.startswith(BY_ARGUMENT) for place in self._places(GIVES))

    def gradients(self, by_place: Mapping[str, Expr]) -> list[Expr | None]:
        """The outputs of a way back, given by the places of the arguments they belong to: their
        numbers in the node of autograd, or with :attr:`is_by_argument` those of the call.

        Raises:
            NotTranslatedError: a gradient was recorded that is not among them.
        """
        result: list[Expr | None] = []
        for place in self._places(GIVES):
            plain = place.removeprefix(BY_ARGUMENT)
            name = by_place.get(plain) or by_place.get(plain.removesuffix(".0"))
            if name is None:
                raise self.refused(f"has a gradient by {place or 'its output'}")
            result.append(name)
        return result

    def refused(self, why: str) -> NotTranslatedError:
        """The error that says what of this call has no translation."""
        return NotTranslatedError(f"{self.piece.op.name} ({self.piece.op.type}) {why}")

    def _read(self, at: int | None, keyword: str, kind: ArgumentKind, value: AttrValue) -> None:
        """Note what the row has read of the call, under the attribute that would say otherwise."""
        place = f"{TAKEN}{at}"
        attribute = place if place in self.piece.op.attrs else f"{TAKEN}{keyword}"
        self.piece.arguments_read[attribute] = ReadArgument(kind, keyword, value)

    def _places(self, attribute: str) -> tuple[str, ...]:
        result = self.piece.op.attrs.get(attribute, ())
        return tuple(map(str, result)) if isinstance(result, tuple) else ()

    def _port(self, at: int | str, keyword: str) -> int | None:
        places = (str(at), keyword, f"{PARAMETER}{keyword}") if keyword else (str(at),)
        return next((self._ports[each] for each in places if each in self._ports), None)

    def _needed(self, at: int | str, keyword: str) -> int:
        result = self._port(at, keyword)
        if result is None:
            raise self.refused(f"has no tensor {keyword or at}")
        return result
