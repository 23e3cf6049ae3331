"""The ONNX nodes of one op while its row makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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


Operand: TypeAlias = "str | Array | None"
"""A tensor by its name, a constant by its value, or an input left out."""


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

    def name(self, at: int = 0) -> str:
        """The name of an input.

        Raises:
            NotTranslatedError: it is not connected.
        """
        if not self.has(at):
            raise NotTranslatedError(f"{self.op.type} without its input {at}")
        return self.names[at]

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

    def const(self, value: Array) -> str:
        """The name of a constant of this piece."""
        name = self._fresh("constant")
        self.constants[name] = np.asarray(value)
        return name

    def ints(self, *values: int) -> str:
        """The name of a constant list of int64."""
        return self.const(np.array(values, np.int64))

    def add(self, kind: str, *inputs: Operand, domain: str = "", **attrs: Any) -> str:
        """Add a node with one output and give the output's name."""
        return self.add_many(kind, 1, *inputs, domain=domain, **attrs)[0]

    def add_many(
        self, kind: str, outputs: int, *inputs: Operand, domain: str = "", **attrs: Any
    ) -> tuple[str, ...]:
        """Add a node with so many *outputs* and give their names.

        Attributes that are None are left out.
        """
        from onnx import helper

        operands = [self._operand(operand) for operand in inputs]
        while operands and not operands[-1]:
            operands.pop()
        output_names = [self._fresh(kind) for _ in range(outputs)]
        attrs_set = {name: value for name, value in attrs.items() if value is not None}
        self.nodes.append(
            helper.make_node(kind, operands, output_names, domain=domain, **attrs_set)
        )
        return tuple(output_names)

    def cast(self, tensor: Operand, dtype: Any) -> str:
        """*tensor* in another element type."""
        from onnx import helper

        return self.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def transpose(self, tensor: Operand, *order: int) -> str:
        """*tensor* with its axes in another order; itself where that is the same."""
        if isinstance(tensor, str) and order == tuple(range(len(order))):
            return tensor
        return self.add("Transpose", tensor, perm=order)

    def reshape(self, tensor: Operand, shape: Sequence[int]) -> str:
        """*tensor* in another shape; a 0 is a size of none, as in numpy."""
        return self.add("Reshape", tensor, np.array(shape, np.int64), allowzero=1)

    def summed(self, kind: str, tensor: Operand, axes: Sequence[int], *, keep: bool = False) -> str:
        """*tensor* reduced along *axes* by a node that adds up: ``ReduceSum`` or its like.

        float32 is added up in double precision: how far off a sum of many float32 is depends on
        the order, and each engine has its own. Rounded once, it is a reference for all of them.
        """
        wide = self.cast(tensor, np.float64)
        listed = self.const(np.array(axes, np.int64))
        total = self.add(kind, wide, listed, keepdims=int(keep), noop_with_empty_axes=1)
        return self.cast(total, np.float32)

    def element(self, tensor: str) -> str:
        """*tensor*, which this piece makes, as an element of a list: others will read it."""
        self.elements.append(tensor)
        return tensor

    def known_of(self, tensor: str) -> KnownTensor | None:
        """What is known of a tensor that is no input: an element of a list."""
        return self._all.get(tensor)

    def number(self, value: float, at: int = 0) -> str:
        """A scalar constant of the element type of input *at*."""
        return self.const(np.array(value, self.dtype(at)))

    def _operand(self, operand: Operand) -> str:
        if operand is None:
            return ""
        return operand if isinstance(operand, str) else self.const(operand)

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
