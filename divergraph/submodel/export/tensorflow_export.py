"""A part of a TensorFlow graph as a frozen graph of its own, written without TensorFlow.

Chosen nodes are copied, with the functions they call. What enters becomes a placeholder;
variables, and ops that draw numbers, become constants with the values that were dumped. Ops
of functions' bodies are written under the ids they have in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.submodel.arguments import argument_values
from divergraph.submodel.constants import READS, VARIABLES, is_another_each_run
from divergraph.submodel.export.contract import PartSource, WrittenPart, another_model, free_name
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import InputError
from graphstore.model import DType, Op, TensorRef
from graphstore.traverse.reach import reached
from importers.kept import some
from importers.tensorflow.functions import Attrs, Library, filled_in
from importers.tensorflow.types import DTYPES
from importers.tensorflow.whole_messages import new_graph, whole_graph

_WRITES = (
    *("Assign", "Apply", "SparseApply", "ResourceApply", "ResourceSparse", "ResourceScatter"),
    *("CountUpTo", "Scatter", "StridedSliceAssign"),
)
_HOLDS = (
    *("Queue", "Reader", "Save", "Restore", "HashTable", "MutableHash", "LookupTable"),
    *("MutableDense", "Stack", "Barrier", "MapStage", "Stage"),
)
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.\\/>-]")
_REFS = ("RefIdentity", "RefEnter", "RefExit", "RefSwitch", "RefMerge", "RefNextIteration")
"""Ops on references; constants in the place of variables are none."""


def write_tensorflow_part(source: PartSource, part: Selection, folder: Path) -> WrittenPart:
    """Write ``dump.pb``."""
    full_graph, nodes = _read(source)
    writing = _Part(source, part, nodes)
    definition = writing.written()
    _add_functions(definition, full_graph)
    definition.versions.CopyFrom(full_graph.versions)
    target = folder / "dump.pb"
    try:
        target.write_bytes(definition.SerializeToString(deterministic=True))
    except ValueError as error:
        raise InputError(
            "the part has more than 2 GiB of constants, which no GraphDef can hold",
            hint="choose fewer ops",
        ) from error
    return WrittenPart((target,), writing.names, tuple(writing.notes))


class _Part:
    def __init__(
        self, source: PartSource, part: Selection, nodes: Mapping[str, tuple[Any, Attrs]]
    ) -> None:
        self._values = source.values
        self._part = part
        self._nodes = nodes
        self._ops = source.graph.op_index()
        self._arguments = argument_values(source.graph)
        self._own = set(part.ops)
        self._taken: set[str] = set(self._ops)
        self._called: dict[str, str] = {}
        self._refs: dict[TensorRef | str, str] = {}
        self._definition = new_graph()
        self._dropped: list[str] = []
        self.names: dict[str, str] = {}
        self.notes: list[str] = []

    def written(self) -> Any:
        for tensor in self._part.inputs:
            self._enter(tensor)
        ops_kept = self._kept()
        for op in ops_kept:
            self._check(self._ops[op])
        copied = [op for op in ops_kept if not self._is_constant(self._ops[op])]
        for op in ops_kept:
            if op not in set(copied):
                self._freeze(self._ops[op])
        for op in copied:
            self._name(op)
        for op in copied:
            self._copy(self._ops[op], set(copied))
        for tensor in self._part.outputs:
            self._note_name(tensor)
        if self._dropped:
            count = len(self._dropped)
            self.notes.append(
                f"{count} control inputs from outside left out: {some(self._dropped)}"
            )
        return self._definition

    # what is written

    def _kept(self) -> list[str]:
        """The ops to write: the chosen ones and what they need of the constants."""

        def taken(op: str) -> Iterator[str]:
            for ref in self._ops[op].inputs if not self._is_constant(self._ops[op]) else ():
                producer = ref and (ref.producer or self._arguments.get(ref.tensor))
                if producer and producer.op in self._own:
                    yield producer.op

        needed = reached((op for op in self._part.chosen if op in self._ops), taken)
        return [op for op in self._part.ops if op in needed]

    def _is_constant(self, op: Op) -> bool:
        """Whether an op is written as the constants it made in the run."""
        if op.type in VARIABLES or op.type == READS:
            return True
        has_value = any(tensor.name in self._values for tensor in op.outputs)
        drawn = is_another_each_run(op.type)
        return has_value and (drawn or op.type == "Identity")

    def _check(self, op: Op) -> None:
        if op.type.startswith(_HOLDS):
            raise InputError(
                f"{op.id} ({op.type}) works on something the session holds, which no part can",
                hint="choose ops after it",
            )
        for ref in op.inputs:
            maker = self._ops.get(ref.producer.op) if ref and ref.producer else None
            if maker is None or maker.type not in VARIABLES:
                continue
            if op.type.startswith(_WRITES) and op.type != "ScatterNd":
                raise InputError(
                    f"{op.id} ({op.type}) changes the variable {maker.id}; a part has its "
                    "variables as constants",
                    hint=f"end at what feeds {op.id}",
                )
            if maker.type == "VarHandleOp" and op.type != READS:
                raise InputError(
                    f"{op.id} ({op.type}) takes the variable {maker.id} itself, not its value",
                    hint="choose ops that take what a ReadVariableOp gives",
                )
        if self._ops[op.id].type not in VARIABLES and op.id not in self._nodes:
            raise InputError(f"the model file has no node {op.id!r}", hint="--model FILE")

    # names

    def _name(self, op: str) -> None:
        name = op if _NAME.fullmatch(op) else self._fresh(op)
        self._called[op] = name
        for port, _ in enumerate(self._ops[op].outputs):
            self._refs[TensorRef(op, port)] = name if port == 0 else f"{name}:{port}"

    def _fresh(self, wanted: str) -> str:
        plain = _NO_NAME.sub("_", wanted)
        plain = plain if plain[:1].isalnum() else f"n{plain}"
        name = free_name(plain, self._taken)
        self._taken.add(name)
        return name

    def _note_name(self, tensor: BoundaryTensor) -> None:
        assert tensor.ref is not None
        written = self._refs.get(tensor.ref)
        if written is None:
            raise InputError(
                f"{tensor.name} is a variable itself, not its value",
                hint=f"end at what reads it: {some(tensor.users)}" if tensor.users else "",
            )
        self.names[tensor.name] = written if ":" in written else f"{written}:0"

    def _single(self, key: TensorRef | str, name: str) -> Any:
        """A node of one output for the tensor *key*, under the name the tensor has if it can."""
        node = self._definition.node.add()
        maker, _, port = name.rpartition(":")
        own = maker and port == "0" and _NAME.fullmatch(maker) and maker not in self._called
        node.name = maker if own else self._fresh(f"{maker}_{port}" if maker else name)
        self._refs[key] = node.name
        self.names[name] = f"{node.name}:0"
        return node

    # nodes

    def _enter(self, tensor: BoundaryTensor) -> None:
        key = tensor.key
        if tensor.frozen and tensor.name in self._values:
            value = self._values[tensor.name]
            self._constant(self._single(key, tensor.name), value, tensor.dtype)
            return
        node = self._single(key, tensor.name)
        node.op = "Placeholder"
        node.attr["dtype"].type = _number(tensor.dtype, tensor.name)
        shape = node.attr["shape"].shape
        shape.SetInParent()
        for size in tensor.shape or ():
            shape.dim.add(size=-1 if size is None else size)
        # An empty shape alone is read as an unknown one: old writers left it so.
        node.attr["_output_shapes"].list.shape.add().CopyFrom(shape)

    def _freeze(self, op: Op) -> None:
        if op.type == "VarHandleOp":
            return  # what reads it is a constant
        for port, tensor in enumerate(op.outputs):
            value = self._values.get(tensor.name)
            if value is None:
                raise InputError(
                    f"the value of {tensor.name} is not in the golden dump, and the model file "
                    "holds none",
                    hint=f"dump {tensor.name}, or choose ops that do not read it",
                )
            self._constant(self._single(TensorRef(op.id, port), tensor.name), value, tensor.dtype)

    def _constant(self, node: Any, value: Array, dtype: DType | None) -> None:
        node.op = "Const"
        number = _number(dtype or DType(value.dtype.name), node.name)
        node.attr["dtype"].type = number
        tensor = node.attr["value"].tensor
        tensor.dtype = number
        tensor.tensor_shape.SetInParent()
        for size in value.shape:
            tensor.tensor_shape.dim.add(size=size)
        if value.dtype.kind in "OSU":
            tensor.string_val.extend(_bytes(one) for one in value.ravel())
        else:
            tensor.tensor_content = _content(value, dtype)

    def _copy(self, op: Op, copied: set[str]) -> None:
        node_def, attrs = self._nodes[op.id]
        node = self._definition.node.add()
        node.name = self._called[op.id]
        node.op = node_def.op.removeprefix("Ref") if node_def.op in _REFS else node_def.op
        for name, value in node_def.attr.items():
            if name != "_class":  # it may name a node that is not here
                node.attr[name].CopyFrom(filled_in(value, attrs))
        for ref in op.inputs:
            key: TensorRef | str = ""
            if ref is not None:
                key = ref.producer or self._arguments.get(ref.tensor) or ref.tensor
            written = self._refs.get(key)
            if written is None:
                raise InputError(
                    f"{op.id} takes {key}, which the part neither makes nor is given",
                    hint="start further up",
                )
            node.input.append(written)
        for source in op.control_inputs:
            if source in copied:
                node.input.append(f"^{self._called[source]}")
            elif source not in self._own:
                self._dropped.append(f"{source} of {op.id}")


def _read(source: PartSource) -> tuple[Any, Mapping[str, tuple[Any, Attrs]]]:
    """The GraphDef of the source graph, and its nodes by op id."""
    path = source.model
    if path.is_dir():
        path /= Path(source.graph.source).name
    full_graph = whole_graph(path, source.graph)
    if full_graph is None:
        raise another_model(source.model)
    return full_graph


def _add_functions(definition: Any, full_graph: Any) -> None:
    """Copy the functions that are called, and those they call."""
    functions = {function.signature.name: function for function in full_graph.library.function}
    library = Library(full_graph.library.function)

    def called(nodes: Iterable[Any]) -> Iterator[str]:
        return (call.function for node in nodes for call in library.calls(node))

    needed = reached(called(definition.node), lambda name: called(functions[name].node_def))
    for name in sorted(needed):
        definition.library.function.add().CopyFrom(functions[name])


def _number(dtype: DType | None, name: str) -> int:
    for number, numbered in DTYPES.items():
        if numbered is dtype:
            return int(number)
    raise InputError(f"TensorFlow has no tensors of type {dtype} ({name})")


def _content(value: Array, dtype: DType | None) -> bytes:
    if dtype is DType.BFLOAT16 and value.dtype.kind == "f":
        bits = np.ascontiguousarray(value, np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()
    wanted = None if dtype is None else dtype.numpy
    values = np.ascontiguousarray(value if wanted is None else value.astype(wanted))
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
