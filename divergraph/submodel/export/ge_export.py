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
    source: PartSource, part: Selection, folder: Path, *, with_whole: bool = True
) -> WrittenPart:
    """Write ``dump.txt``; *with_whole* reads the graph's file again for what a graph leaves out."""
    graph, names = ge_part(source.graph, part)
    model, notes = to_ge(graph)
    if with_whole:
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
    for op_def in _ops_in_file(source, body, names):
        for written in model.graph[0].op:
            if written.name == op_def.name and written.type == op_def.type:
                linked = list(written.input), list(written.subgraph_name), written.id
                written.CopyFrom(op_def)
                for field in _PLACES:
                    written.ClearField(field)
                written.input[:], written.subgraph_name[:], written.id = linked


def _ops_in_file(source: PartSource, body: str, names: Mapping[str, str]) -> Iterable[Any]:
    """The ops of these names in the file, if it is one of GE's and each is there once."""
    kind = source.graph.format
    read = READERS.get("ge_proto_text" if kind == "ge_proto" else kind)
    if read is None or not source.model.exists():
        return ()
    graphs = read(source.model).graph
    bodies = [graph for graph in graphs if _text(graph.name) == body] if body else graphs[:1]
    ops = [op for graph in bodies for op in graph.op if _text(op.name) in names]
    alike = all(names[_text(op.name)] == _text(op.type) for op in ops)
    return ops if alike and len(ops) == len(names) else ()


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def is_inserted(op: Op) -> bool:
    """Whether a compiler put the op between others."""
    return op.type in _INSERTED and not op.original_names


def ge_part(graph: ModelGraph, part: Selection) -> tuple[ModelGraph, dict[str, str]]:
    """*part* of *graph* as a graph of its own, and what its inputs are called there."""
    ops = graph.op_index()
    ops_with_bodies = with_bodies(graph, part.ops)
    inputs = {op.name for op in ops_with_bodies.values() if not op.subgraph}
    names: dict[str, str] = {}
    feeding: dict[TensorRef | str, TensorRef] = {}
    data: list[Op] = []
    for tensor in part.inputs:
        op = _data(tensor, ops, inputs, len(data))
        inputs.add(op.name)
        data.append(op)
        feeding[tensor.key] = TensorRef(op.id, 0)
        names[tensor.name] = op.outputs[0].name
    body = _body_of(part, ops)
    inner = [
        _moved(op, feeding, ops_with_bodies, body, len(data)) for op in ops_with_bodies.values()
    ]
    outputs = tuple(tensor.ref for tensor in part.outputs if tensor.ref is not None)
    last = _net_output(outputs, ops, inputs, len(data) + len(inner))
    graph_of_part = replace(
        graph,
        ops=(*data, *inner, last),
        subgraphs=tuple(
            subgraph for subgraph in graph.subgraphs if subgraph.owner in ops_with_bodies
        ),
        inputs=tuple(op.outputs[0] for op in data),
        outputs=outputs,
        constants=(),
        warnings=(),
    )
    return graph_of_part, names


def _body_of(part: Selection, ops: dict[str, Op]) -> str:
    return ops[part.ops[0]].subgraph


def with_bodies(graph: ModelGraph, ops: Iterable[str]) -> dict[str, Op]:
    """*ops* and those of the bodies they own, by id, in the graph's order."""
    chosen = set(ops)
    bodies = {body.name: body.owner for body in graph.subgraphs}
    ops_kept: dict[str, Op] = {}
    for op in graph.ops:
        owner = bodies.get(op.subgraph, "")
        if op.id in chosen or owner in ops_kept:
            ops_kept[op.id] = op
    return ops_kept


def _data(tensor: BoundaryTensor, ops: dict[str, Op], used: set[str], number: int) -> Op:
    maker = None if tensor.ref is None else ops.get(tensor.ref.op)
    wanted = tensor.name if maker is None else maker.name
    if tensor.ref is not None and tensor.ref.port:
        wanted = f"{wanted}_{tensor.ref.port}"
    name = free_name(wanted, used)
    tensor_info = Tensor(tensor.name)
    if maker is not None and tensor.ref is not None and tensor.ref.port < len(maker.outputs):
        tensor_info = maker.outputs[tensor.ref.port]
    layout = tensor.layout or tensor_info.layout
    shape = tensor_info.shape if tensor_info.shape is not None else tensor.shape
    output = replace(tensor_info, name=f"{name}:0", dtype=tensor.dtype, shape=shape, layout=layout)
    originals = None if maker is None else maker.original_names
    return Op(name, name, "Data", (), outputs=(output,), attrs={"index": number},
              original_names=originals, sequence=number)  # fmt: skip


def _moved(
    op: Op,
    feeding: dict[TensorRef | str, TensorRef],
    ops_kept: dict[str, Op],
    body: str,
    before: int,
) -> Op:
    """*op* with what entered from outside taken of the Data ops, in the root graph."""
    inputs = []
    for ref in op.inputs:
        feeding_ref = None if ref is None else feeding.get(ref.producer or ref.tensor)
        inputs.append(ref if feeding_ref is None else InputRef(f"{feeding_ref.op}:0", feeding_ref))
    return replace(
        op,
        inputs=tuple(inputs),
        control_inputs=tuple(source for source in op.control_inputs if source in ops_kept),
        subgraph="" if op.subgraph == body else op.subgraph,
        sequence=before + op.sequence,
    )


def _net_output(
    outputs: tuple[TensorRef, ...], ops: dict[str, Op], used: set[str], place: int
) -> Op:
    name = "Node_Output"
    while name in used:
        name += "_"
    inputs = tuple(InputRef(ops[ref.op].outputs[ref.port].name, ref) for ref in outputs)
    return Op(name, name, "NetOutput", inputs, sequence=1 << 40 | place)
