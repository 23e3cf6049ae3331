"""A part of a device's graph as GE writes graphs: ``dump.txt``, protobuf text.

What enters becomes ``Data`` ops with type, shape and layout of the device's tensors, called
like the ops that made them, so that their dumps are found; a ``NetOutput`` takes what comes
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from divergraph.graph_formats.ge_from_graph import to_ge
from divergraph.graph_formats.ge_sources import READERS
from divergraph.graph_formats.ge_writers import write_text
from divergraph.submodel.export.contract import PartSource, WrittenPart, free_name
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.model import InputRef, ModelGraph, Op, Tensor, TensorRef

_INSERTED = frozenset({"TransData", "Cast", "TransDataRNN", "TransposeD", "FormatTransfer"})
"""Ops a compiler puts between others to change layout or type."""
_PLACES = (
    *("input", "subgraph_name", "src_name", "src_index", "dst_name", "dst_index", "input_name"),
    *("input_i", "output_i", "workspace", "workspace_bytes", "is_input_const"),
)
"""What an op has by its place in the whole graph and in memory."""


def write_ge_part(
    source: PartSource, part: Selection, folder: Path, *, whole: bool = True
) -> WrittenPart:
    """Write ``dump.txt``; *whole* reads the graph's file again for what a graph leaves out."""
    graph, names = ge_part(source.graph, part)
    model, notes = to_ge(graph)
    if whole:
        _take_over(model, source, part)
    target = folder / "dump.txt"
    with target.open("w", encoding="ascii", newline="\n") as out:
        write_text(model, out)
    return WrittenPart((target,), names, tuple(notes))


def _take_over(model: Any, source: PartSource, part: Selection) -> None:
    """Give the ops of *model* all that GE's own file says of them; a graph keeps less."""
    ops = source.graph.op_index()
    body = _body_of(part, ops)
    names = {ops[op].name: ops[op].type for op in part.ops}
    for said in _said(source, body, names):
        for written in model.graph[0].op:
            if written.name == said.name and written.type == said.type:
                linked = list(written.input), list(written.subgraph_name), written.id
                written.CopyFrom(said)
                for field in _PLACES:
                    written.ClearField(field)
                written.input[:], written.subgraph_name[:], written.id = linked


def _said(source: PartSource, body: str, names: Mapping[str, str]) -> Iterable[Any]:
    """The ops of these names in the file, if it is one of GE's and each is there once."""
    kind = source.graph.format
    read = READERS.get("ge_proto_text" if kind == "ge_proto" else kind)
    if read is None or not source.model.exists():
        return ()
    graphs = read(source.model).graph
    found = [graph for graph in graphs if _text(graph.name) == body] if body else graphs[:1]
    said = [op for graph in found for op in graph.op if _text(op.name) in names]
    alike = all(names[_text(op.name)] == _text(op.type) for op in said)
    return said if alike and len(said) == len(names) else ()


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def is_inserted(op: Op) -> bool:
    """Whether a compiler put the op between others."""
    return op.type in _INSERTED and not op.original_names


def ge_part(graph: ModelGraph, part: Selection) -> tuple[ModelGraph, dict[str, str]]:
    """*part* of *graph* as a graph of its own, and what its inputs are called there."""
    ops = graph.op_index()
    kept = with_bodies(graph, part.ops)
    inputs = {op.name for op in kept.values() if not op.subgraph}
    names: dict[str, str] = {}
    given: dict[TensorRef | str, TensorRef] = {}
    data: list[Op] = []
    for tensor in part.inputs:
        made = _data(tensor, ops, inputs, len(data))
        inputs.add(made.name)
        data.append(made)
        given[tensor.key] = TensorRef(made.id, 0)
        names[tensor.name] = made.outputs[0].name
    body = _body_of(part, ops)
    inner = [_moved(op, given, kept, body, len(data)) for op in kept.values()]
    outputs = tuple(tensor.ref for tensor in part.outputs if tensor.ref is not None)
    last = _net_output(outputs, ops, inputs, len(data) + len(inner))
    whole = replace(
        graph,
        ops=(*data, *inner, last),
        subgraphs=tuple(each for each in graph.subgraphs if each.owner in kept),
        inputs=tuple(op.outputs[0] for op in data),
        outputs=outputs,
        constants=(),
        warnings=(),
    )
    return whole, names


def _body_of(part: Selection, ops: dict[str, Op]) -> str:
    return ops[part.ops[0]].subgraph


def with_bodies(graph: ModelGraph, ops: Iterable[str]) -> dict[str, Op]:
    """*ops* and those of the bodies they own, by id, in the graph's order."""
    chosen = set(ops)
    bodies = {body.name: body.owner for body in graph.subgraphs}
    kept: dict[str, Op] = {}
    for op in graph.ops:
        owner = bodies.get(op.subgraph, "")
        if op.id in chosen or owner in kept:
            kept[op.id] = op
    return kept


def _data(tensor: BoundaryTensor, ops: dict[str, Op], taken: set[str], number: int) -> Op:
    maker = None if tensor.ref is None else ops.get(tensor.ref.op)
    wanted = tensor.name if maker is None else maker.name
    if tensor.ref is not None and tensor.ref.port:
        wanted = f"{wanted}_{tensor.ref.port}"
    name = free_name(wanted, taken)
    known = Tensor(tensor.name)
    if maker is not None and tensor.ref is not None and tensor.ref.port < len(maker.outputs):
        known = maker.outputs[tensor.ref.port]
    layout = tensor.layout or known.layout
    shape = known.shape if known.shape is not None else tensor.shape
    output = replace(known, name=f"{name}:0", dtype=tensor.dtype, shape=shape, layout=layout)
    originals = None if maker is None else maker.original_names
    return Op(name, name, "Data", (), outputs=(output,), attrs={"index": number},
              original_names=originals, sequence=number)  # fmt: skip


def _moved(
    op: Op, given: dict[TensorRef | str, TensorRef], kept: dict[str, Op], body: str, before: int
) -> Op:
    """*op* with what entered from outside taken of the Data ops, in the root graph."""
    inputs = []
    for ref in op.inputs:
        found = None if ref is None else given.get(ref.producer or ref.tensor)
        inputs.append(ref if found is None else InputRef(f"{found.op}:0", found))
    return replace(
        op,
        inputs=tuple(inputs),
        control_inputs=tuple(source for source in op.control_inputs if source in kept),
        subgraph="" if op.subgraph == body else op.subgraph,
        sequence=before + op.sequence,
    )


def _net_output(
    outputs: tuple[TensorRef, ...], ops: dict[str, Op], taken: set[str], place: int
) -> Op:
    name = "Node_Output"
    while name in taken:
        name += "_"
    inputs = tuple(InputRef(ops[ref.op].outputs[ref.port].name, ref) for ref in outputs)
    return Op(name, name, "NetOutput", inputs, sequence=1 << 40 | place)
