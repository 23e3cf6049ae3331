"""TensorFlow's graph messages with the fields an importer leaves out and a writer keeps.

They are those of ``importers/proto/messages/tf_graph.proto``, completed: the values of constants
(tensor.proto) and the versions a graph was written for (versions.proto). Without
TensorFlow; text is read too, where unknown fields would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import HEAD_BYTES
from importers.proto.messages import tf_graph_pb2
from importers.tensorflow.functions import Attrs, declared
from importers.tensorflow.importer import binary_kind
from importers.tensorflow.nodes import GraphNodes
from importers.tensorflow.reading import control_contexts

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKED = (
    ("float_val", 5, _FIELD.TYPE_FLOAT),
    ("double_val", 6, _FIELD.TYPE_DOUBLE),
    ("int_val", 7, _FIELD.TYPE_INT32),
    ("scomplex_val", 9, _FIELD.TYPE_FLOAT),
    ("int64_val", 10, _FIELD.TYPE_INT64),
    ("bool_val", 11, _FIELD.TYPE_BOOL),
    ("dcomplex_val", 12, _FIELD.TYPE_DOUBLE),
    ("half_val", 13, _FIELD.TYPE_INT32),
    ("uint32_val", 16, _FIELD.TYPE_UINT32),
    ("uint64_val", 17, _FIELD.TYPE_UINT64),
)
_KINDS = {"graphdef": "GraphDef", "meta": "MetaGraphDef", "saved_model": "SavedModel"}


def read_whole(path: Path, kind: str) -> Any:
    """The message in *path*, which is of the *kind* the importer told, with all its values.

    Raises:
        ImportFormatError: damaged.
    """
    message = _classes()[_KINDS[kind]]()
    data = path.read_bytes()
    try:
        if binary_kind(data[:HEAD_BYTES]) is not None:
            message.ParseFromString(data)
        else:
            text_format.Parse(data, message, allow_unknown_field=True)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ImportFormatError(path, f"damaged TensorFlow graph: {error}") from error
    return message


def whole_graph(
    path: Path, graph: ModelGraph
) -> tuple[Any, Mapping[str, tuple[Any, Attrs]]] | None:
    """The GraphDef that *graph* was read from, and its nodes by op id, each with the attributes of
    the function around it; None if *path* holds another graph now.

    Raises:
        ImportFormatError: damaged.
    """
    message = read_whole(path, graph.format)
    graphs = [message]
    if graph.format == "saved_model":
        graphs = list(message.meta_graphs)
    wanted = {op.id for op in graph.ops}
    for graph_def in graphs:
        definition = graph_def if graph.format == "graphdef" else graph_def.graph_def
        ops = {} if definition is graph_def else declared(graph_def.meta_info_def.stripped_op_list)
        contexts = {} if definition is graph_def else control_contexts(graph_def)
        nodes = GraphNodes(definition, ops, contexts).definitions
        if nodes.keys() == wanted:
            return definition, nodes
    return None


def new_graph() -> Any:
    """An empty GraphDef."""
    return _classes()["GraphDef"]()


@cache
def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto()
    tf_graph_pb2.DESCRIPTOR.CopyToProto(file)
    before, file.package = f".{file.package}.", "divergraph.tensorflow"
    file.name = "divergraph/tensorflow_whole.proto"
    versions = file.message_type.add(name="Versions")
    for name, number in (("producer", 1), ("min_consumer", 2)):
        _add(versions, name, number, _FIELD.TYPE_INT32)
    _add(versions, "bad_consumers", 3, _FIELD.TYPE_INT32, repeated=True)
    messages = {message.name: message for message in file.message_type}
    tensor, graph = messages["Tensor"], messages["GraphDef"]
    _add(tensor, "version_number", 3, _FIELD.TYPE_INT32)
    _add(tensor, "tensor_content", 4, _FIELD.TYPE_BYTES)
    _add(tensor, "string_val", 8, _FIELD.TYPE_BYTES, repeated=True)
    for name, number, kind in _PACKED:
        _add(tensor, name, number, kind, repeated=True)
    _add(graph, "versions", 4, _FIELD.TYPE_MESSAGE).type_name = ".divergraph.tensorflow.Versions"
    for message in file.message_type:
        _repoint(message, before, f".{file.package}.")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name], pool) | {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}"))
        for name in _KINDS.values()
    }


def _add(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: Any,
    *,
    repeated: bool = False,
) -> descriptor_pb2.FieldDescriptorProto:
    label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    return message.field.add(name=name, number=number, type=kind, label=label)


def _repoint(message: descriptor_pb2.DescriptorProto, before: str, after: str) -> None:
    for field in message.field:
        if field.type_name.startswith(before):
            field.type_name = after + field.type_name.removeprefix(before)
    for inner in message.nested_type:
        _repoint(inner, before, after)
