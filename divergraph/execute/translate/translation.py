"""Ops of a model translated one after the other into one ONNX model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from divergraph.execute.translate.blocks import Block
from divergraph.execute.translate.contract import (
    KnownTensor,
    NeedsValueError,
    NotTranslatedError,
    OpRows,
    RowEntry,
)
from divergraph.execute.translate.lists import TensorLists
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.pieces import made_by, new_model, tensor_info
from divergraph.values.array_types import Array
from graphstore.errors import ExecutionError
from graphstore.model import Op

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_VALUE = "\nvalue of a constant"
"""Behind the name of a constant that a node hands on: what it hands on."""
_FED_FROM = 1 << 10
"""Constants of more elements are fed to the model in place of being written into it."""


class Constants(Protocol):
    """The constants and weights of a model by the names of their tensors, read when asked for."""

    def __contains__(self, tensor: object) -> bool: ...

    def __getitem__(self, tensor: str) -> Array: ...

    def nbytes(self, tensor: str) -> int:
        """The size of one, without reading it."""
        ...


class _NoConstants:
    def __contains__(self, tensor: object) -> bool:
        return False

    def __getitem__(self, tensor: str) -> Array:
        raise KeyError(tensor)

    def nbytes(self, tensor: str) -> int:
        raise KeyError(tensor)


NO_CONSTANTS: Constants = _NoConstants()
"""Of ops that stand alone: all that one reads is fed to it."""


class Translation:
    """Ops as one ONNX model, growing op by op.

    Several pieces of a model can stand side by side in it: tensors of the piece *scope* are called
    ``<scope><tensor>``; constants are shared.
    """

    def __init__(
        self,
        rows: OpRows,
        constants: Constants,
        blocks: Mapping[str, Block] | None = None,
        *,
        double: bool = False,
    ) -> None:
        self.double = double
        self._rows = rows
        self._constants = constants
        self._blocks = blocks or {}
        self._aliases: dict[str, str] = {}
        self._once: set[str] = set()
        self.lists = TensorLists()
        self.known: dict[str, KnownTensor] = {}
        self.dead: set[str] = set()
        """Tensors this run does not make: those of branches it does not take."""
        self._nodes: list[NodeProto] = []
        self._values: dict[str, Array] = {}
        self._given: dict[str, KnownTensor] = {}

    def give(self, tensor: str, known_tensor: KnownTensor, scope: str = "") -> None:
        """Say what is known of a *tensor* that will be fed."""
        self.known[scope + tensor] = self._given[scope + tensor] = known_tensor

    def add(self, op: Op, scope: str = "") -> None:
        """Translate *op*, whose inputs were given or made before.

        Raises:
            NotTranslatedError: no row covers it.
            NeedsValueError: its row needs the value of a tensor that has to be run for.
            ExecutionError: its inputs do not fit it.
        """
        block = self._blocks.get(op.id)
        entry = self._rows.entries.get(op.type)
        if entry is None and block is None:
            raise NotTranslatedError(f"no translation of ops of type {op.type}")
        names = self.inputs_of(op, scope)
        outputs = [scope + tensor.name for tensor in op.outputs]
        alive = ["" if name in self.dead else name for name in names]
        if alive != names and not (entry is not None and entry.joins and any(alive)):
            self.dead.update(outputs)
            return
        missing = next((name for name in alive if name and name not in self.known), None)
        if missing is not None:
            raise NotTranslatedError(f"{missing.removeprefix(scope)!r} was not made")
        if block is not None:
            block.unroll(self, op, scope)
        elif entry is not None:
            self._put(entry, op, alive, outputs, scope)

    def add_once(self, op: Op, scope: str) -> None:
        """:meth:`add`, if *op* was not added under this scope before: ops of blocks, which are gone
        through again when a value that they wait for is known."""
        if scope + op.id not in self._once:
            self.add(op, scope)
            self._once.add(scope + op.id)

    def alias(self, name: str, source: str) -> None:
        """Let *name* stand for *source*, a tensor as it is called here."""
        self._aliases[name] = source

    def hand_on(self, op: Op, results: Sequence[str], scope: str) -> None:
        """Say that the outputs of *op* are *results*, tensors as they are called here."""
        from onnx import helper

        for tensor, source in zip(op.outputs, results, strict=True):
            name = scope + tensor.name
            if source in self.dead:
                self.dead.add(name)
                continue
            if source not in self.known:
                raise NotTranslatedError(f"{source.rpartition(chr(10))[2]!r} was not made")
            known_tensor = self.known[name] = self.known[source]
            if known_tensor.value is not None:
                self._values[name] = known_tensor.value
            else:
                self._nodes.append(helper.make_node("Identity", [source], [name]))

    def inputs_of(self, op: Op, scope: str) -> list[str]:
        """What the inputs of *op* are called here; empty for one that is not connected."""
        return [self.named(ref.tensor, scope) if ref is not None else "" for ref in op.inputs]

    def value(self, name: str) -> Array:
        """The value of a tensor that decides what is translated next.

        Raises:
            NeedsValueError: it has to be run for.
            NotTranslatedError: it was not made.
        """
        if name not in self.known:
            raise NotTranslatedError(f"{name.rpartition(chr(10))[2]!r} was not made")
        value = self.known[name].value
        if value is None:
            raise NeedsValueError(name)
        return value

    def constant(self, tensor: str) -> Array | None:
        """The value of a tensor that is known before anything runs."""
        known_tensor = self.known.get(tensor)
        return None if known_tensor is None else known_tensor.value

    def model(
        self, outputs: Collection[str], extra: Collection[str] = ()
    ) -> tuple[ModelProto, dict[str, Array]]:
        """The model that gives *outputs*, and the constants to feed it beside what was given. What
        of them is a constant, a node hands on; as what is among *extra*."""
        from onnx import ValueInfoProto, helper, numpy_helper

        fixed = {name: name + _VALUE for name in (*outputs, *extra) if name in self._values}
        nodes = [helper.make_node("Identity", [value], [name]) for name, value in fixed.items()]
        nodes += self._behind(outputs)
        model = new_model(nodes)
        graph = model.graph
        used = {*outputs, *(name for node in nodes for name in node.input)}
        values = {fixed.get(name, name): value for name, value in self._values.items()}
        for name, known_tensor in self._given.items():
            if name in used:
                graph.input.append(tensor_info(name, known_tensor))
        fed: dict[str, Array] = {}
        for name in sorted(used & values.keys()):
            value = values[name]
            if value.size <= _FED_FROM:
                graph.initializer.append(numpy_helper.from_array(value, name))
            else:
                graph.input.append(tensor_info(name, KnownTensor.of(value)))
                fed[name] = value
        for name in outputs:
            graph.output.append(ValueInfoProto(name=name))
        return model, fed

    def _behind(self, outputs: Collection[str]) -> list[NodeProto]:
        """The nodes that make *outputs*."""
        wanted = set(outputs)
        nodes: list[NodeProto] = []
        for node in reversed(self._nodes):
            if not wanted.isdisjoint(node.output):
                wanted.update(node.input)
                nodes.append(node)
        nodes.reverse()
        return nodes

    def named(self, tensor: str, scope: str = "") -> str:
        """What *tensor* of the piece *scope* is called here."""
        scoped = scope + tensor
        if scoped in self._aliases:
            return self._aliases[scoped]
        if scoped in self.known or scoped in self.dead:
            return scoped
        if tensor in self._constants and tensor not in self.known:
            self.fix(tensor, self._constants[tensor])
        return tensor if tensor in self._constants else scoped

    def fix(self, name: str, value: Array) -> None:
        """Say that a tensor is this constant."""
        self.known[name] = KnownTensor.of(value)
        self._values[name] = value

    def _put(
        self, entry: RowEntry, op: Op, names: Sequence[str], output_names: Sequence[str], scope: str
    ) -> None:
        known_tensors = [self.known.get(name) if name else None for name in names]
        piece = Piece(op, names, known_tensors, scope, self.lists, self.known)
        try:
            outputs = [None if made is None else str(made) for made in entry.row(piece)]
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # Attributes and shapes come from files: whatever they are, only this op is lost.
            what = f"{op.id!r} of type {op.type} cannot be as it is: {error}"
            raise ExecutionError(what) from error
        # Of an op that is run for some outputs, others may be given: those stay as they are.
        pairs = [
            (name, output)
            for name, output in zip(output_names, outputs, strict=False)
            if name not in self._given
        ]
        self.dead.update(name for name, output in pairs if output is None)
        name_of_output: dict[str, str] = {}
        for name, output in (*pairs, *((element, element) for element in piece.elements)):
            if output is not None and _is_made(piece, output):
                name_of_output.setdefault(output, name)
        known_of_output = made_by(piece, list(name_of_output)) if name_of_output else {}
        unknown = next(
            (name for output, name in name_of_output.items() if output not in known_of_output), None
        )
        if unknown is not None:  # before any node of it is taken up
            raise NotTranslatedError(f"nothing says the element type of {unknown!r}")
        if name_of_output and all(
            output in known_of_output and known_of_output[output].value is not None
            for output in name_of_output
        ):
            piece.nodes.clear()  # all of it follows from constants
        else:
            for node in piece.nodes:
                _rename(node.output, name_of_output)
                _rename(node.input, name_of_output)
            self._nodes += piece.nodes
            self._values.update(piece.constants)
        for name, output in pairs:
            if output is not None:
                self._note(name, output, piece, name_of_output, known_of_output)
        for name in piece.elements:
            if name not in self.known:
                self._note(name, name, piece, name_of_output, known_of_output)

    def _note(
        self,
        name: str,
        output: str,
        piece: Piece,
        name_of_output: Mapping[str, str],
        known_of_output: Mapping[str, KnownTensor],
    ) -> None:
        """Keep what is known of an output under its own *name*."""
        from onnx import helper

        known_tensor = known_of_output.get(output)
        if output in piece.constants:
            self.fix(name, piece.constants[output])
        elif known_tensor is not None and known_tensor.value is not None:
            self.fix(name, known_tensor.value)
        elif known_tensor is not None and name_of_output.get(output) == name:
            self.known[name] = known_tensor
        else:  # an input handed on, or one node's output under a second name
            source = name_of_output.get(output, output)
            handed = self.known[source]
            self.known[name] = handed
            if handed.value is not None:
                self._values[name] = handed.value
            else:
                self._nodes.append(helper.make_node("Identity", [source], [name]))


def _is_made(piece: Piece, output: str) -> bool:
    return any(output in node.output for node in piece.nodes)


def _rename(names: _Names, renamed: Mapping[str, str]) -> None:
    for at, name in enumerate(names):
        if name in renamed:
            names[at] = renamed[name]


if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedScalarFieldContainer

    _Names = RepeatedScalarFieldContainer[str]
