"""GE's own files read whole, so that nothing is lost between them.

The importers leave out what no comparison needs; here every field they know is kept, but
for kernels, tasks and weights of offline models, which stay in the ``.om``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from divergraph.graph_formats.ge_schema import model_class
from graphstore.errors import ImportFormatError
from importers.filled_files import fill
from importers.ge_proto.binary import BinaryReader
from importers.ge_proto.importer import choose_graph
from importers.om.container import MODEL_DEF, Tables, read_container, read_tables
from importers.proto.text_reader import EventKind, TextReader
from importers.proto.values import BinarySpan, Fields, message
from importers.source import mapped, read_whole

_BLOBS = (b"tasks", b"_tbe_kernel_buffer")
_MAX_BLOB = 1 << 16


def read_text(path: Path) -> Any:
    """The ``ModelDef`` of a ``ge_proto_*.txt``, or of the one that ran in a folder of them.

    Raises:
        ImportFormatError: with line and column, where the text is broken.
    """
    if path.is_dir():
        path = choose_graph(path, ()).path
    model = model_class()()
    with mapped(path) as buffer:
        reader = TextReader(buffer, path)
        for event in reader.events(b"graph"):
            try:
                if event.kind is EventKind.ENTER:
                    model.graph.add()
                elif event.kind is EventKind.FIELD:
                    target = model.graph[-1] if event.depth else model
                    fill(target, [(event.name, event.value)])
            except ValueError as error:
                raise reader.error(event.offset, str(error)) from error
    return model


def read_om(path: Path) -> Any:
    """The ``ModelDef`` an offline model holds, names and texts that ``om_compress`` replaced
    by numbers as they were; the graphs of all its models, as the importer joins them.

    Raises:
        ImportFormatError: with the byte offset, where the file is damaged.
    """
    offline_model = model_class()()
    places: dict[bytes, int] = {}
    root: Tables | None = None
    with mapped(path) as buffer:
        for partitions in read_container(buffer, path).models:
            span = next((part.span for part in partitions if part.type == MODEL_DEF), None)
            if span is None:
                continue
            model = model_class()()
            try:
                model.ParseFromString(buffer[span.offset : span.offset + span.size])
            except DecodeError as error:
                what = f"the model definition is damaged: {error}"
                raise ImportFormatError(path, what, offset=span.offset) from error
            tables = _tables(BinaryReader(buffer, path), span, root)
            if root is None:
                root = tables
                offline_model.MergeFrom(model)
                del offline_model.graph[:]
            for graph in model.graph:
                _undo_codes(graph, tables, path, span)
                place = places.setdefault(graph.name, len(offline_model.graph))
                if place == len(offline_model.graph):
                    offline_model.graph.add()
                offline_model.graph[place].CopyFrom(graph)
    _drop_blobs(offline_model)
    return offline_model


def read_json(path: Path) -> Any:
    """The ``ModelDef`` in a JSON of the offline converter.

    Raises:
        ImportFormatError: a value is of the wrong kind.
    """
    model = model_class()()
    content = json.JSONDecoder(strict=False).decode(
        read_whole(path).decode("utf-8-sig", "replace").strip()
    )
    try:
        _fill_json(model, content)
    except (ValueError, TypeError, AttributeError) as error:
        raise ImportFormatError(path, f"it does not fit GE's schema: {error}") from error
    return model


READERS: dict[str, Callable[[Path], Any]] = {
    "ge_proto_text": read_text,
    "om": read_om,
    "ge_json": read_json,
}
"""Readers by the name of the importer that knows the format."""


def _tables(reader: BinaryReader, span: BinarySpan, root: Tables | None) -> Tables:
    entries: list[Fields] = [
        message(value) for name, value, _ in reader.top("ModelDef", span) if name == b"attr"
    ]
    try:
        return read_tables(entries, root)
    except ValueError as error:
        raise reader.error(span.offset, str(error)) from error


def _undo_codes(graph: Any, tables: Tables, path: Path, span: BinarySpan) -> None:
    if not tables.names:
        return
    for op in graph.op:
        for holder in (op, *op.input_desc, *op.output_desc):
            for entry in holder.attr:
                try:
                    _undo_code(entry, tables)
                except ValueError as error:
                    raise ImportFormatError(path, str(error), offset=span.offset) from error


def _undo_code(entry: Any, tables: Tables) -> None:
    if not entry.key.startswith(b"\0"):
        return
    value = entry.value
    numbers = list(value.list.i) if value.HasField("list") else [value.i]
    content: Fields = [(b"list", [(b"i", number) for number in numbers])]
    undone = tables.op([(b"attr", [(b"key", entry.key.decode()), (b"value", content)])])
    fields = dict(message(message(undone)[0][1]))
    entry.key = str(fields[b"key"]).encode()
    texts = [text for kind, text in message(message(fields[b"value"])[0][1]) if kind == b"s"]
    if not texts:
        return
    if value.HasField("list"):
        del value.list.i[:]
        value.list.s.extend(str(text).encode() for text in texts)
    elif value.HasField("i"):
        value.s = str(texts[0]).encode()


def _drop_blobs(model: Any) -> None:
    """Leave out kernels and tasks: half of the file, and no reader of a graph wants them."""
    holders = [model, *(op for graph in model.graph for op in graph.op)]
    for holder in holders:
        for place in reversed(range(len(holder.attr))):
            entry = holder.attr[place]
            if entry.key in _BLOBS or len(entry.value.bt) > _MAX_BLOB:
                del holder.attr[place]


def _fill_json(target: Any, content: Any) -> None:
    """Set the fields of *target* that the JSON object *content* names."""
    if not isinstance(content, dict):
        raise ValueError(f"{str(content)[:40]!r} where an object belongs")  # noqa: TRY004 - the file is wrong
    fields = target.DESCRIPTOR.fields_by_name
    for name, value in content.items():
        field = fields.get(name)
        if field is None or value is None:
            continue
        if field.is_repeated:
            message_field = getattr(target, name)
            for element in _elements(name, value):
                if field.message_type is not None:
                    _fill_json(message_field.add(), element)
                else:
                    message_field.append(_json_scalar(field, element))
        elif field.message_type is not None:
            getattr(target, name).SetInParent()
            _fill_json(getattr(target, name), value)
        else:
            setattr(target, name, _json_scalar(field, value))


def _elements(name: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if name == "attr" and isinstance(value, dict) and "key" not in value:
        # Protobuf's own printer writes maps as objects.
        return [{"key": key, "value": element} for key, element in value.items()]
    return [value]


def _json_scalar(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        return str(value).encode("utf-8", "backslashreplace")
    if field.type == field.TYPE_ENUM:
        named = field.enum_type.values_by_name.get(str(value))
        return named.number if named is not None else int(value) if str(value).isdigit() else 0
    if field.type == field.TYPE_FLOAT:
        return float(value)
    return bool(value) if field.type == field.TYPE_BOOL else int(value)
