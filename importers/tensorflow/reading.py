"""Read a TensorFlow file of a known kind into a model graph, with what a MetaGraphDef keeps beside
its graph: collections, control contexts, signatures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from google.protobuf.message import DecodeError, Message

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import AttrValue, Framework, GraphKind, ModelGraph, TensorRef
from importers.contract import HEAD_BYTES
from importers.filled_files import fill
from importers.kept import kept_list, kept_text
from importers.proto.messages import tf_graph_pb2 as pb
from importers.proto.text_reader import Buffer, EventKind, TextReader
from importers.proto.wire import BLOCK, Plan, outer_fields, without_long
from importers.source import mapped, sha256
from importers.tensorflow.functions import declared
from importers.tensorflow.importer import TensorFlowMessage, binary_kind
from importers.tensorflow.nodes import GraphNodes

_Context: TypeAlias = "pb.CondContext | pb.WhileContext"
_CONTEXTS: Mapping[str, type[_Context]] = {
    "cond_context": pb.CondContext,
    "while_context": pb.WhileContext,
}
_MAX_DEPTH = 50


def collection_attrs(meta: pb.MetaGraphDef) -> dict[str, AttrValue]:
    """The collections as attributes ``collection <name>``, each entry by its name.

    Entries that are messages (variables, queue runners, contexts) have their name first.
    """
    return {
        f"collection {name}": _entries(meta.collection_def[name])
        for name in sorted(meta.collection_def)
    }


def signature_attrs(meta: pb.MetaGraphDef) -> dict[str, AttrValue]:
    """The signatures as attributes ``signature <name>``: what is fed and what comes back."""
    signatures: dict[str, AttrValue] = {}
    for name in sorted(meta.signature_def):
        signature = meta.signature_def[name]
        inputs_text, outputs_text = (
            ", ".join(f"{key}={infos[key].name}" for key in sorted(infos))
            for infos in (signature.inputs, signature.outputs)
        )
        signatures[f"signature {name}"] = kept_text(
            f"{inputs_text or 'nothing'} -> {outputs_text or 'nothing'}"
        )
    return signatures


def control_contexts(meta: pb.MetaGraphDef) -> dict[str, str]:
    """The innermost recorded context (of a ``tf.cond`` or loop) by the name of its node."""
    sizes: dict[str, int] = {}
    contexts: dict[str, str] = {}
    for name, values in _contexts(meta):
        for value in values:
            node = value.removeprefix("^").partition(":")[0]
            if len(values) <= sizes.get(node, len(values)):
                sizes[node] = len(values)
                contexts[node] = name
    return contexts


def _entries(collection: pb.CollectionDef) -> AttrValue:
    kind = collection.WhichOneof("kind")
    if kind == "node_list":
        return kept_list([kept_text(value) for value in collection.node_list.value])
    if kind == "bytes_list":
        return kept_list([_named(value) for value in collection.bytes_list.value])
    if kind == "int64_list":
        return kept_list(collection.int64_list.value)
    if kind == "float_list":
        return kept_list(collection.float_list.value)
    return kept_list([kept_text(value.type_url) for value in collection.any_list.value])


def _named(entry: bytes) -> str:
    first = next(iter(outer_fields(entry, limit=1)), None)
    content = entry if first is None or first.kind != (1, BLOCK) else first.content
    return kept_text(content.decode("utf-8", "backslashreplace"))


def _contexts(meta: pb.MetaGraphDef) -> Iterator[tuple[str, list[str]]]:
    for name, kind in _CONTEXTS.items():
        if name not in meta.collection_def:
            continue
        for entry in meta.collection_def[name].bytes_list.value:
            try:
                context = kind.FromString(entry)
            except DecodeError:
                continue  # an entry of another kind: it stays visible as a collection
            yield from _nested(context, _MAX_DEPTH)


def _nested(context: _Context, depth: int) -> Iterator[tuple[str, list[str]]]:
    yield context.context_name, list(context.values_def.values)
    for inner in context.nested_contexts if depth else ():
        kind = inner.WhichOneof("kind")
        if kind is not None:
            yield from _nested(getattr(inner, kind), depth - 1)


_ENTER: Mapping[TensorFlowMessage, tuple[bytes, ...]] = {
    TensorFlowMessage.GRAPH: (),
    TensorFlowMessage.META: (b"graph_def",),
    TensorFlowMessage.SAVED: (b"meta_graphs", b"graph_def"),
}
# The values of constants are left in the file: field 4 of a TensorProto and those after it, in
# `value` (and lists) of the attributes of nodes, of the graph and of its functions.
_TENSOR: Plan = dict.fromkeys(range(4, 19))
_VALUE: Plan = {8: _TENSOR, 1: {8: _TENSOR}}
_NODE: Plan = {5: {2: _VALUE}}
_GRAPH_PLAN: Plan = {1: _NODE, 2: {1: {3: _NODE}}}
_META_PLAN: Plan = {2: _GRAPH_PLAN}
_PLANS: Mapping[TensorFlowMessage, Plan] = {
    TensorFlowMessage.GRAPH: _GRAPH_PLAN,
    TensorFlowMessage.META: _META_PLAN,
    TensorFlowMessage.SAVED: {2: _META_PLAN},
}
_MOST = 1 << 12
_HINT = "it was cut or damaged; save or copy it again"


def read_tensorflow(path: Path, kind: TensorFlowMessage, tags: str = "") -> ModelGraph:
    """The graph in the file *path*, which holds a message of *kind*, binary or text.

    Of a SavedModel the graph with the *tags* (separated by commas) is read.

    Raises:
        ImportFormatError: damaged, or without a node.
        InputError: no graph has the tags.
    """
    saved, meta = pb.SavedModel(), pb.MetaGraphDef()
    message = {
        TensorFlowMessage.GRAPH: meta.graph_def,
        TensorFlowMessage.META: meta,
        TensorFlowMessage.SAVED: saved,
    }[kind]
    with mapped(path) as buffer:
        if binary_kind(buffer[:HEAD_BYTES]) is not None:
            _parse(message, buffer, path, _PLANS[kind])
        else:
            _parse_text(message, TextReader(buffer, path), _ENTER[kind])
        digest = sha256(buffer)
    warnings: list[str] = []
    if kind is TensorFlowMessage.SAVED:
        meta, warnings = _main(saved, path, tags)
    if not meta.graph_def.node:
        raise ImportFormatError(path, "the graph has no nodes", hint=_HINT)
    return _graph(meta, path, kind, digest, warnings)


def _parse(message: Message, buffer: Buffer, path: Path, plan: Plan) -> None:
    try:
        message.ParseFromString(without_long(buffer, plan, _MOST))
    except (DecodeError, ValueError) as error:
        raise ImportFormatError(path, f"damaged TensorFlow graph: {error}", hint=_HINT) from error


def _parse_text(message: Message, reader: TextReader, enter: tuple[bytes, ...]) -> None:
    """Fill *message*, one field of the innermost entered block at a time."""
    around = [message]
    for event in reader.events(*enter):
        if event.kind is EventKind.ENTER:
            inner = getattr(around[-1], event.name.decode())
            around.append(inner.add() if hasattr(inner, "add") else inner)
        elif event.kind is EventKind.LEAVE:
            around.pop()
        else:
            with reader.told(event.offset):
                fill(around[-1], [(event.name, event.value)])


def _main(saved: pb.SavedModel, path: Path, tags: str) -> tuple[pb.MetaGraphDef, list[str]]:
    """The graph with *tags*, else the one that serves, else the first; what is said of others."""
    graphs = saved.meta_graphs
    if not graphs:
        raise ImportFormatError(path, "the SavedModel holds no graph", hint=_HINT)
    tags_of_graphs = [" ".join(sorted(graph.meta_info_def.tags)) for graph in graphs]
    wanted = " ".join(sorted(tag for tag in tags.split(",") if tag))
    if wanted and wanted not in tags_of_graphs:
        hint = f"there are: {', '.join(tag_text or 'none' for tag_text in tags_of_graphs)}"
        raise InputError(f"no graph has the tags {wanted}", where=str(path), hint=hint)
    serving = (at for at, graph in enumerate(graphs) if "serve" in graph.meta_info_def.tags)
    chosen = tags_of_graphs.index(wanted) if wanted else next(serving, 0)
    if len(graphs) == 1:
        return graphs[0], []
    note = f"of {len(graphs)} graphs the one with tags {tags_of_graphs[chosen] or 'none'} was read"
    return graphs[chosen], [note]


def _graph(
    meta: pb.MetaGraphDef, path: Path, kind: TensorFlowMessage, digest: str, warnings: list[str]
) -> ModelGraph:
    ops = declared(meta.meta_info_def.stripped_op_list)
    nodes = GraphNodes(meta.graph_def, ops, control_contexts(meta))
    named = path.resolve().parent.name if path.stem == "saved_model" else path.stem
    version = meta.meta_info_def.tensorflow_version
    attrs: dict[str, AttrValue] = {"tensorflow_version": version} if version else {}
    return ModelGraph(
        name=named or path.stem,
        kind=GraphKind.ORIGINAL,
        framework=Framework.TENSORFLOW,
        format=kind.value,
        ops=nodes.ops,
        subgraphs=tuple(nodes.subgraphs),
        inputs=nodes.inputs(),
        outputs=_signature_outputs(meta, nodes) or nodes.ends(),
        attrs=attrs | signature_attrs(meta) | collection_attrs(meta),
        warnings=(*warnings, *nodes.warnings()),
        source=str(path),
        sha256=digest,
    )


def _signature_outputs(meta: pb.MetaGraphDef, nodes: GraphNodes) -> tuple[TensorRef, ...]:
    """What the signatures give back, ``serving_default`` first, each tensor once."""
    refs: dict[TensorRef, None] = {}
    for name in sorted(meta.signature_def, key=lambda name: (name != "serving_default", name)):
        outputs = meta.signature_def[name].outputs
        for key in sorted(outputs):
            reference = nodes.reference(outputs[key].name)
            if reference is not None:
                refs[reference] = None
    return tuple(refs)
