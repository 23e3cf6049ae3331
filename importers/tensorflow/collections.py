"""What a MetaGraphDef keeps beside its graph: collections, control contexts, signatures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from google.protobuf.message import DecodeError

from graphstore.model import AttrValue
from importers.kept import kept_list, kept_text
from importers.proto.messages import tf_graph_pb2 as pb
from importers.proto.wire import BLOCK, outer_fields

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
    found: dict[str, AttrValue] = {}
    for name in sorted(meta.signature_def):
        signature = meta.signature_def[name]
        given, made = (
            ", ".join(f"{key}={infos[key].name}" for key in sorted(infos))
            for infos in (signature.inputs, signature.outputs)
        )
        found[f"signature {name}"] = kept_text(f"{given or 'nothing'} -> {made or 'nothing'}")
    return found


def control_contexts(meta: pb.MetaGraphDef) -> dict[str, str]:
    """The innermost recorded context (of a ``tf.cond`` or loop) by the name of its node."""
    sizes: dict[str, int] = {}
    found: dict[str, str] = {}
    for name, values in _contexts(meta):
        for value in values:
            node = value.removeprefix("^").partition(":")[0]
            if len(values) <= sizes.get(node, len(values)):
                sizes[node] = len(values)
                found[node] = name
    return found


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
