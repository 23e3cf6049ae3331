"""The ONNX nodes of one op while its row makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from divergraph.execute.translate.contract import KnownTensor, NeedsValueError, NotTranslatedError
from divergraph.execute.translate.lists import TensorLists
from divergraph.values.array_types import Array
from graphstore.model import AttrValue, Op

if TYPE_CHECKING:
    from onnx import NodeProto


class ArgumentKind(StrEnum):
    """What an argument of a recorded call is that is no tensor."""

    NUMBER = "number"
    FLAG = "flag"
    WORD = "word"
    AXIS = "axis"


@dataclass(frozen=True, slots=True)
class ReadArgument:
    """An argument that a row has read: its name, and what was recorded, or the default."""

    kind: ArgumentKind
    name: str
    value: AttrValue


def _function(kind: str) -> Callable[[Expr], Expr]:
    return lambda value: value.piece.add(kind, value)


def _binary(kind: str) -> Callable[[Expr, Operand], Expr]:
    return lambda value, other: value.piece.add(kind, value, other)


def _turned(kind: str) -> Callable[[Expr, Operand], Expr]:
    return lambda value, other: value.piece.add(kind, other, value)


class Expr:
    """A tensor of a *piece*, called *name*, in expressions like those of numpy: each operator and
    function adds its ONNX node. A number beside it is a constant of its element type.

    >>> piece = Piece(Op("f", "f", "Silu"), ("x",), (KnownTensor(np.dtype(np.float32)),))
    >>> made = piece.name(0) * piece.name(0).sigmoid() + 1
    >>> [node.op_type for node in piece.nodes]
    ['Sigmoid', 'Mul', 'Add']
    """

    __slots__ = ("_dtype", "name", "piece")
    __array_ufunc__ = None
    """Numbers of numpy leave expressions with a value to it."""

    def __init__(self, piece: Piece, name: str, dtype: Callable[[], np.dtype[Any]]) -> None:
        self.piece, self.name, self._dtype = piece, name, dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type; it may be known only once it is asked for."""
        return self._dtype()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, of an input."""
        return self.piece.shape(self.piece.names.index(self.name))

    def __str__(self) -> str:
        return self.name

    def cast(self, dtype: Any) -> Expr:
        """The tensor in another element type."""
        return self.piece.cast(self, dtype)

    __add__, __radd__ = _binary("Add"), _turned("Add")
    __sub__, __rsub__ = _binary("Sub"), _turned("Sub")
    __mul__, __rmul__ = _binary("Mul"), _turned("Mul")
    __truediv__, __rtruediv__ = _binary("Div"), _turned("Div")
    __pow__, __rpow__ = _binary("Pow"), _turned("Pow")
    __matmul__, __mod__ = _binary("MatMul"), _binary("Mod")
    __gt__, __lt__ = _binary("Greater"), _binary("Less")
    __ge__, __le__ = _binary("GreaterOrEqual"), _binary("LessOrEqual")
    __and__, __or__, __xor__ = _binary("And"), _binary("Or"), _binary("Xor")
    __neg__, __invert__, __abs__ = _function("Neg"), _function("Not"), _function("Abs")
    equals, max, min = _binary("Equal"), _binary("Max"), _binary("Min")
    exp, log, sqrt, sign = map(_function, ("Exp", "Log", "Sqrt", "Sign"))
    sin, cos, sinh, cosh = map(_function, ("Sin", "Cos", "Sinh", "Cosh"))
    tanh, atan, erf = map(_function, ("Tanh", "Atan", "Erf"))
    sigmoid, softplus, relu = map(_function, ("Sigmoid", "Softplus", "Relu"))
    floor, ceil, reciprocal = map(_function, ("Floor", "Ceil", "Reciprocal"))


Operand: TypeAlias = "Expr | str | Array | float | None"
"""A tensor, by its name where it is another piece's, a constant by its value, a number of the type
of the first tensor beside it, or an input left out."""
Outputs: TypeAlias = "Sequence[Expr | None]"
"""What a row gives: a value for each output of the op, None for one that this run does not make."""
UNREAD = "_unread_inputs"
"""The attribute that names, by place, the inputs that are connected, but whose values are nowhere;
"" for those that are read."""
_TRUTH = frozenset(
    ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Not")
)
_PLACES = frozenset(("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression"))


class Piece:
    """One op on its way to ONNX.

    ``names`` are the names of its inputs (empty for one that is not connected), ``known`` what is
    known of them. ``nodes`` and ``constants`` are what the row has made so far.
    """

    def __init__(
        self,
        op: Op,
        names: Sequence[str],
        known: Sequence[KnownTensor | None],
        scope: str = "",
        lists: TensorLists | None = None,
        all_known: Mapping[str, KnownTensor] | None = None,
    ) -> None:
        self.op = op
        self.lists = lists or TensorLists()
        self._all = all_known or {}
        self.elements: list[str] = []
        """Tensors of this piece that are no outputs, but elements of lists."""
        self._scope = scope
        self.names = tuple(names)
        self.known = tuple(known)
        self.arguments_read: dict[str, ReadArgument] = {}
        """By attribute the arguments of a recorded call that its row has read."""
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self.names)

    def has(self, at: int) -> bool:
        """Whether the op has an input at this place."""
        return at < len(self.names) and bool(self.names[at])

    def name(self, at: int = 0) -> Expr:
        """An input.

        Raises:
            NotTranslatedError: it is not connected.
        """
        value = self.optional(at)
        if value is None:
            raise NotTranslatedError(f"{self.op.type} without its input {at}")
        return value

    def optional(self, at: int) -> Expr | None:
        """An input that may be missing; None if it is.

        Raises:
            NotTranslatedError: it is there, but its values are nowhere.
        """
        if self.has(at):
            return Expr(self, self.names[at], partial(self.dtype, at))
        unread = self.op.attrs.get(UNREAD, ())
        if isinstance(unread, tuple) and at < len(unread) and unread[at]:
            raise NotTranslatedError(f"its input {at}, {unread[at]}, was not dumped")
        return None

    def values(self) -> tuple[Expr, ...]:
        """All inputs."""
        return tuple(self.name(at) for at in range(len(self)))

    def tensor(self, name: str) -> Expr:
        """A tensor that is no input, such as an element of a list."""
        return Expr(self, name, lambda: self._all[name].dtype)

    def dtype(self, at: int = 0) -> np.dtype[Any]:
        """The element type of an input."""
        return self._known(at).dtype

    def shape(self, at: int = 0) -> tuple[int, ...]:
        """The shape of an input.

        Raises:
            NeedsValueError: it follows only from running what is before.
        """
        shape = self._known(at).shape
        if shape is None:
            raise NeedsValueError(self.names[at])
        return shape

    def rank(self, at: int = 0) -> int:
        """The number of axes of an input."""
        return len(self.shape(at))

    def value(self, at: int) -> Array:
        """The value of an input that shapes the result: axes, sizes, permutations.

        Raises:
            NeedsValueError: it follows only from running what is before.
        """
        value = self._known(at).value
        if value is None:
            raise NeedsValueError(self.names[at])
        return value

    def integers(self, at: int) -> tuple[int, ...]:
        """As :meth:`value`, as a flat tuple of integers."""
        return tuple(int(number) for number in np.ravel(self.value(at)))

    def attr(self, name: str, default: AttrValue | None = None) -> Any:
        """An attribute of the op; *default* where it says nothing.

        Raises:
            NotTranslatedError: there is no such attribute, nor a default.
        """
        value = self.op.attrs.get(name, default)
        if value is None:
            raise NotTranslatedError(f"{self.op.type} without the attribute {name}")
        return value

    def const(self, value: Array) -> Expr:
        """A constant of this piece."""
        name, array = self._fresh("constant"), np.asarray(value)
        self.constants[name] = array
        return Expr(self, name, lambda: array.dtype)

    def ints(self, *values: int) -> Expr:
        """A constant list of int64."""
        return self.const(np.array(values, np.int64))

    def add(self, kind: str, *inputs: Operand, domain: str = "", **attrs: Any) -> Expr:
        """Add a node with one output and give that."""
        return self.add_many(kind, 1, *inputs, domain=domain, **attrs)[0]

    def add_many(
        self, kind: str, outputs: int, *inputs: Operand, domain: str = "", **attrs: Any
    ) -> tuple[Expr, ...]:
        """Add a node with so many *outputs* and give them.

        Attributes that are None are left out.
        """
        from onnx import helper

        data = inputs[1:] if kind == "Where" else inputs
        tensors = [tensor for tensor in data if isinstance(tensor, Expr)]
        operands = [self._operand(operand, tensors) for operand in inputs]
        while operands and not operands[-1]:
            operands.pop()
        output_names = [self._fresh(kind) for _ in range(outputs)]
        attrs_set = {name: value for name, value in attrs.items() if value is not None}
        self.nodes.append(
            helper.make_node(kind, operands, output_names, domain=domain, **attrs_set)
        )

        def dtype() -> np.dtype[Any]:
            if kind == "Cast":
                return np.dtype(helper.tensor_dtype_to_np_dtype(attrs["to"]))
            if kind in _TRUTH:
                return np.dtype(np.bool_)
            return np.dtype(np.int64) if kind in _PLACES else tensors[0].dtype

        return tuple(Expr(self, name, dtype) for name in output_names)

    def cast(self, tensor: Operand, dtype: Any) -> Expr:
        """*tensor* in another element type."""
        from onnx import helper

        return self.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def transpose(self, tensor: Expr, *order: int) -> Expr:
        """*tensor* with its axes in another order; itself where that is the same."""
        if order == tuple(range(len(order))):
            return tensor
        return self.add("Transpose", tensor, perm=order)

    def reshape(self, tensor: Operand, shape: Sequence[int]) -> Expr:
        """*tensor* in another shape; a 0 is a size of none, as in numpy."""
        return self.add("Reshape", tensor, np.array(shape, np.int64), allowzero=1)

    def summed(
        self, kind: str, tensor: Operand, axes: Sequence[int], *, keep: bool = False
    ) -> Expr:
        """*tensor* reduced along *axes* by a node that adds up: ``ReduceSum`` or its like.

        float32 is added up in double precision: how far off a sum of many float32 is depends on
        the order, and each engine has its own. Rounded once, it is a reference for all of them.
        """
        wide = self.cast(tensor, np.float64)
        listed = self.const(np.array(axes, np.int64))
        total = self.add(kind, wide, listed, keepdims=int(keep), noop_with_empty_axes=1)
        return self.cast(total, np.float32)

    def element(self, tensor: Expr) -> str:
        """*tensor*, which this piece makes, as an element of a list: others will read it."""
        self.elements.append(tensor.name)
        return tensor.name

    def known_of(self, tensor: str) -> KnownTensor | None:
        """What is known of a tensor that is no input: an element of a list."""
        return self._all.get(tensor)

    def number(self, value: float, at: int = 0) -> Expr:
        """A scalar constant of the element type of input *at*."""
        return self.const(np.array(value, self.dtype(at)))

    def _operand(self, operand: Operand, tensors: Sequence[Expr]) -> str:
        if operand is None or isinstance(operand, Expr | str):
            return str(operand or "")
        if isinstance(operand, int | float):
            operand = np.array(operand, tensors[0].dtype)
        return self.const(operand).name

    def _known(self, at: int) -> KnownTensor:
        self.name(at)
        known_tensor = self.known[at]
        if known_tensor is None:
            raise NeedsValueError(self.names[at])
        return known_tensor

    def _fresh(self, what: str) -> str:
        # No name of a model has a line break before it, so none is met twice.
        self._made += 1
        return f"{self._scope}{self.op.id}\n{what}{self._made}"
