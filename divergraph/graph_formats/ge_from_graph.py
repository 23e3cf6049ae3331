"""Any model graph as GE's messages, so that reading them back gives the graph again.

Ops keep their names, bodies, order, inputs, control inputs, attributes, originals and
outputs with type, shape, layout and origin. GE has two conventions other frameworks lack:
a body's inputs are ``Data`` ops and its outputs those of a ``NetOutput``. Where a body has
outputs but no such op, or takes tensors from around it by name, such ops are added, and the
notes say so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from divergraph.graph_formats.ge_captures import Captures
from divergraph.graph_formats.ge_schema import LIST_TYPES, model_class
from divergraph.text.words import counted
from graphstore.model import (
    AttrValue,
    DType,
    Framework,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Subgraph,
    Tensor,
    TensorRef,
    op_id,
)
from importers.kept import some, split_reference
from importers.number_formats import dtype_named, layout_named

_ORIGINALS = "_datadump_original_op_names"
_PARENT = "_parent_node_index"
_MAX_INT = 1 << 63


def to_ge(graph: ModelGraph) -> tuple[Any, list[str]]:
    """*graph* as a ``ModelDef``, and what could not be said in it."""
    writing = _Writing(graph)
    return writing.model(), writing.notes()


class _Writing:
    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self._ops = graph.op_index()
        self._names = _local_names(graph)
        self._members: dict[str, list[Op]] = {"": [], **{b.name: [] for b in graph.subgraphs}}
        for op in graph.ops:
            self._members.setdefault(op.subgraph, []).append(op)
        self._taken = {
            body: {self._names[op.id] for op in ops} for body, ops in self._members.items()
        }
        self._captures = Captures(graph, self._names, self._taken)
        self._roles = {body.name: body.role for body in graph.subgraphs}
        self._outside: list[str] = []
        self._untold: list[str] = []
        self._added: list[str] = []
        self._types: dict[DType | None, int] = {}

    def notes(self) -> list[str]:
        """What a reader of the text will not find as it was."""
        captured = [
            f"{data.tensor} in {body}" for body, ds in self._captures.data.items() for data in ds
        ]
        remarks = [
            (self._outside, "input", "from inside of another body, written by name only"),
            (captured, "tensor", "led into a body through a Data op added to it"),
            (self._untold, "element type", "without a name in GE, left out"),
            (self._added, "sub-graph", "given a NetOutput op for what it returns"),
        ]
        return [
            f"{counted(len(names), noun)} {what}: {some(names)}"
            for names, noun, what in remarks
            if names
        ]

    def model(self) -> Any:
        model = model_class()()
        bodies = {body.name: body for body in self._graph.subgraphs}
        for name, ops in self._members.items():
            written = model.graph.add(name=_bytes(name or self._graph.name))
            if not name:
                self._ends(written)
                _attrs(written.attr, self._graph.attrs)
            body = bodies.get(name)
            mirrors = {op: position for position, op in body.inputs} if body else {}
            for op in ops:
                self._op(written.op.add(), op, mirrors.get(op.id), body)
            for data in self._captures.data.get(name, ()):
                added = written.op.add(name=_bytes(data.name), type=b"Data")
                _attrs(added.attr, {_PARENT: data.position})
                self._desc(added.output_desc.add(), self._made(data.tensor))
            if body is not None and not any(op.type == "NetOutput" for op in ops):
                self._net_output(written, body)
        return model

    def _ends(self, written: Any) -> None:
        """The inputs and outputs of the root graph."""
        first = {op.outputs[0].name: op for op in self._members[""] if op.outputs}
        for tensor in self._graph.inputs:
            if tensor.name in first:
                written.input.append(_bytes(f"{self._names[first[tensor.name].id]}:0"))
        for ref in self._graph.outputs:
            if ref.op in self._ops and not self._ops[ref.op].subgraph:
                written.output.append(_bytes(f"{self._names[ref.op]}:{ref.port}"))

    def _op(self, written: Any, op: Op, mirrors: int | None, body: Subgraph | None) -> None:
        written.name, written.type = _bytes(self._names[op.id]), _bytes(op.type)
        written.id = _int64(op.sequence)
        for ref in op.inputs:
            written.input.append(b"" if ref is None else _bytes(self._reference(op, ref)))
        for extra, _ in self._captures.inputs.get(op.id, ()):
            written.input.append(_bytes(extra))
        for source in op.control_inputs:
            name = self._names.get(source, source)
            if self._is_near(op, source):
                written.input.append(_bytes(f"{name}:-1"))
            else:
                self._outside.append(f"{source} of {op.id}")
        for owned in sorted(op.owns, key=self._place_of_role):
            written.subgraph_name.append(_bytes(owned))
        attrs = dict(op.attrs)
        if op.original_names is not None and _ORIGINALS not in attrs:
            attrs[_ORIGINALS] = op.original_names
        if mirrors is not None and self._graph.framework is not Framework.ASCEND:
            attrs.setdefault(_PARENT, mirrors)
        _attrs(written.attr, attrs)
        for ref in op.inputs:
            if ref is not None:
                self._desc(written.input_desc.add(), self._tensor(ref))
        for _, captured in self._captures.inputs.get(op.id, ()):
            self._desc(written.input_desc.add(), self._made(captured))
        if op.type == "NetOutput" and body is not None:
            self._feeds(written, op.inputs, body)
        for tensor in op.outputs:
            self._desc(written.output_desc.add(), tensor)

    def _place_of_role(self, body: str) -> int:
        """GE tells branches apart by their order."""
        role = self._roles.get(body, "")
        digits = role.removeprefix("branch_")
        return int(digits) if digits.isdecimal() else int(role in ("else_branch", "body"))

    def _is_near(self, op: Op, source: str) -> bool:
        return source in self._ops and self._ops[source].subgraph == op.subgraph

    def _reference(self, op: Op, ref: InputRef) -> str:
        if ref.producer is not None:
            reference = self._captures.way(op.subgraph, ref.producer)
            if reference is not None:
                return reference
            self._outside.append(f"{ref.tensor} of {op.id}")
        # Named only: it must not be taken for the output of an op that has this name.
        name = ref.tensor
        while (parts := split_reference(name, lowest=-1))[0] in self._taken[op.subgraph] or (
            parts[1] < 0
        ):
            name = f"{name.replace(':-', ':')} (no op)"
        return name or "(no name)"

    def _tensor(self, ref: InputRef) -> Tensor:
        return Tensor(ref.tensor) if ref.producer is None else self._made(ref.producer)

    def _made(self, ref: TensorRef) -> Tensor:
        producer = self._ops.get(ref.op)
        if producer is not None and 0 <= ref.port < len(producer.outputs):
            return producer.outputs[ref.port]
        return Tensor(str(ref))

    def _desc(self, written: Any, tensor: Tensor) -> None:
        if self._graph.framework is not Framework.ASCEND:
            written.name = _bytes(tensor.name)  # nowhere else is it told
        written.dtype = self._type(tensor.dtype)
        _shape(written.shape, tensor.shape)
        if tensor.layout is not None:
            written.layout = _bytes(tensor.layout)
        if (origin := tensor.origin) is None:
            return
        attrs: dict[str, AttrValue] = {"_datadump_origin_output_index": origin.port}
        if origin.op:
            attrs["_datadump_origin_name"] = origin.op
        if origin.layout is not None:
            attrs["_datadump_origin_format"] = origin.layout
        if origin.dtype is not None and (number := self._type(origin.dtype)):
            kinds = written.DESCRIPTOR.fields_by_name["dtype"].enum_type.values_by_number
            attrs["_datadump_origin_data_type"] = kinds[number].name
        if origin.shape is not None:
            attrs["origin_shape"] = tuple(_dims(origin.shape))
        _attrs(written.attr, attrs)

    def _type(self, dtype: DType | None) -> int:
        """The number GE has for *dtype*, 0 (undefined) where it has none."""
        if dtype not in self._types:
            numbers = (n for n in range(1, 64) if dtype and dtype_named(str(n)) is dtype)
            self._types[dtype] = next(numbers, 0)
        if dtype is not None and not self._types[dtype] and dtype.value not in self._untold:
            self._untold.append(dtype.value)
        return self._types[dtype]

    def _feeds(self, written: Any, inputs: Iterable[InputRef | None], body: Subgraph) -> None:
        """Say for each input of a NetOutput which output of the body's owner it feeds."""
        unfed = list(body.outputs)
        connected = [ref for ref in inputs if ref is not None]
        for ref, desc in zip(connected, written.input_desc, strict=True):
            if not desc.dtype and layout_named(desc.layout.decode("utf-8", "replace")) is None:
                desc.layout = b"ND"  # without both it would stand for an input in no use
            output = next((pair for pair in unfed if pair[1] == ref.producer), None)
            if output is not None:
                unfed.remove(output)
                _attrs(desc.attr, {_PARENT: output[0]})

    def _net_output(self, written: Any, body: Subgraph) -> None:
        inner = [
            (port, ref)
            for port, ref in body.outputs
            if ref.op in self._ops and self._ops[ref.op].subgraph == body.name
        ]
        if not inner:
            return
        name = "Node_Output"
        while name in self._taken[body.name]:
            name += "_"
        added = written.op.add(name=_bytes(name), type=b"NetOutput")
        refs = [InputRef(str(ref), ref) for _, ref in inner]
        for ref in refs:
            if ref.producer is not None:
                source = ref.producer
                added.input.append(_bytes(f"{self._names[source.op]}:{source.port}"))
            self._desc(added.input_desc.add(), self._tensor(ref))
        self._feeds(added, refs, body)
        self._added.append(body.name)


def _local_names(graph: ModelGraph) -> dict[str, str]:
    """What each op is called inside of its body: its name, but where another op has it too
    and something refers to this one, the end of its id, which is unique."""
    used: set[str] = {ref.op for ref in graph.outputs}
    for op in graph.ops:
        used.update(op.control_inputs)
        used.update(ref.producer.op for ref in op.inputs if ref is not None and ref.producer)
    for body in graph.subgraphs:
        used.update(ref.op for _, ref in body.outputs)
    count = Counter((op.subgraph, op.name) for op in graph.ops)
    names: dict[str, str] = {}
    for op in graph.ops:
        own = op.id.removeprefix(op_id("", op.subgraph))
        unclear = count[op.subgraph, op.name] > 1 and op.id in used
        names[op.id] = own if unclear or not op.name else op.name
    return names


def _attrs(written: Any, attrs: Any) -> None:
    for key, value in attrs.items():
        entry = written.add(key=_bytes(key))
        _value(entry.value, value)


def _value(written: Any, value: AttrValue) -> None:
    if isinstance(value, tuple):
        _listed(written, value)
        return
    field, scalar = _scalar(value)
    setattr(written, field, scalar)


def _listed(written: Any, values: tuple[AttrValue, ...]) -> None:
    rows = [value for value in values if isinstance(value, tuple)]
    if rows:
        _nested(written, values, rows)
        return
    written.list.SetInParent()
    kinds = set()
    for value in values:
        field, scalar = _scalar(value)
        kinds.add(field)
        getattr(written.list, field).append(scalar)
    kind = LIST_TYPES[kinds.pop()] if len(kinds) == 1 else "VT_LIST_STRING" if not kinds else ""
    if kind:
        types = written.list.DESCRIPTOR.fields_by_name["val_type"].enum_type.values_by_name
        written.list.val_type = types[kind].number


def _nested(written: Any, values: tuple[AttrValue, ...], rows: list[tuple[AttrValue, ...]]) -> None:
    cells = [cell for row in rows for cell in row]
    if len(rows) == len(values) and all(type(cell) is int and _fits(cell) for cell in cells):
        written.list_list_int.SetInParent()
        for row in rows:
            written.list_list_int.list_list_i.add().list_i.extend(row)
    elif len(rows) == len(values) and all(type(cell) is float for cell in cells):
        for row in rows:
            written.list_list_float.list_list_f.add().list_f.extend(row)
    else:
        written.s = _bytes(json.dumps(values))  # GE has no lists of such lists


def _scalar(value: AttrValue) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "b", value
    if isinstance(value, int) and _fits(value):
        return "i", value
    if isinstance(value, float):
        return "f", value
    return "s", _bytes(str(value))


def _fits(value: int) -> bool:
    return -_MAX_INT <= value < _MAX_INT


def _int64(value: int) -> int:
    return value if _fits(value) else 0


def _shape(written: Any, shape: Shape | None) -> None:
    written.SetInParent()
    written.dim.extend((-2,) if shape is None else _dims(shape))


def _dims(shape: Shape) -> list[int]:
    return [-1 if dim is None or not _fits(dim) else dim for dim in shape]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
