"""GE's messages as text (``ge_proto_*.txt``) and as the JSON of the offline converter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np
from google.protobuf import text_format

_INDENT = 2
_OM_LEFT_OUT = frozenset(
    (
        *("output", "data_offset", "data", "workspace", "workspace_bytes"),
        *("memory_size", "weight_size", "size", "bt", "quantize_factor"),
    )
)
"""Fields the offline converter leaves out of an ``.om``'s JSON: places in its partitions."""


def write_text(model: Any, out: TextIO) -> None:
    """Write *model* in protobuf's text format, ASCII only, as GE's dumps are."""
    text_format.PrintMessage(model, out, as_utf8=False)


def write_json(model: Any, out: TextIO, *, offline: bool) -> None:
    """Write *model* as ``atc --mode=1`` does (*offline*), or ``--mode=5``.

    Keys are sorted, maps are lists of key and value, floats are texts, defaults are not
    written. Of an offline model the places in its partitions are left out, but for
    ``shape``, which stays where it is that of a scalar: so nothing the graph needs is lost.
    """
    left_out = _OM_LEFT_OUT if offline else frozenset()
    top: dict[str, Any] = {}
    for field, value in model.ListFields():
        if field.name != "graph":
            top[field.name] = _field(field, value, left_out)
    keys = sorted((*top, "graph"))
    out.write("{")
    for place, key in enumerate(keys):
        out.write(f"{',' if place else ''}\n{' ' * _INDENT}{json.dumps(key)}: ")
        if key == "graph":
            graphs = (_graph(graph, left_out) for graph in model.graph)
            _write_list(out, graphs, _INDENT)
        else:
            out.write(_value_text(top[key], _INDENT))
    out.write("\n}\n")


def _graph(graph: Any, left_out: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The members of a graph, its ops one by one as they are asked for."""
    fields = sorted(graph.ListFields(), key=lambda entry: str(entry[0].name))
    for field, value in fields:
        if field.name == "op":
            yield "op", (_message(op, left_out) for op in value)
        elif field.name not in left_out:
            yield field.name, _field(field, value, left_out)


def _write_list(out: TextIO, graphs: Iterator[Iterator[tuple[str, Any]]], indent: int) -> None:
    inner, member = indent + _INDENT, indent + 2 * _INDENT
    out.write("[")
    for number, graph in enumerate(graphs):
        out.write(f"{',' if number else ''}\n{' ' * inner}{{")
        for place, (key, value) in enumerate(graph):
            out.write(f"{',' if place else ''}\n{' ' * member}{json.dumps(key)}: ")
            if key == "op":
                written = (_value_text(op, member + _INDENT) for op in value)
                _write_items(out, written, member)
            else:
                out.write(_value_text(value, member))
        out.write(f"\n{' ' * inner}}}")
    out.write(f"\n{' ' * indent}]")


def _write_items(out: TextIO, written: Iterator[str], indent: int) -> None:
    out.write("[")
    for number, item in enumerate(written):
        out.write(f"{',' if number else ''}\n{' ' * (indent + _INDENT)}{item}")
    out.write(f"\n{' ' * indent}]")


def _value_text(value: Any, indent: int) -> str:
    # New lines inside of texts are escaped, so every one is the printer's own.
    text = json.dumps(value, indent=_INDENT, sort_keys=True, ensure_ascii=False)
    return text.replace("\n", "\n" + " " * indent)


def _message(message: Any, left_out: frozenset[str]) -> dict[str, Any]:
    return {
        field.name: _field(field, value, left_out)
        for field, value in message.ListFields()
        if field.name not in left_out
    }


def _field(field: Any, value: Any, left_out: frozenset[str]) -> Any:
    if not field.is_repeated:
        return _single(field, value, left_out)
    if field.message_type is not None and field.message_type.name == "Entry":
        return [
            {"key": _text(entry.key), "value": _message(entry.value, left_out) or None}
            for entry in value
        ]
    return [_single(field, element, left_out) for element in value]


def _single(field: Any, value: Any, left_out: frozenset[str]) -> Any:
    if field.message_type is not None:
        return _message(value, left_out)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else value
    if field.type == field.TYPE_FLOAT:
        return str(np.float32(value))  # the fewest digits that are this number
    return _text(value) if isinstance(value, bytes) else value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
