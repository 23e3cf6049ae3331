"""Load an ONNX model from any of its forms, long values left in the file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import ImportFormatError
from importers.filled_files import fill
from importers.kept import told_of
from importers.names import MAX_BODY_OPS, MAX_DEPTH, Expansion
from importers.onnx_model.importer import Form
from importers.proto.text_reader import Buffer, EventKind, TextReader
from importers.proto.wire import Plan, without_long
from importers.source import mapped, sha256

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

MAX_TEXT_BYTES = 1 << 28
"""Larger JSON and ONNX text is refused: their parsers take it whole."""

_MAX_NESTING = 100
_HINT = "it was cut or damaged; export or copy it again"
_LONG = 1 << 14  # a value of 1024 elements still fits: shapes are computed from such ones


def _plans() -> Plan:
    """The fields with values by their place in onnx.proto; graphs lie in attributes of nodes."""
    # raw_data, float_data, int32_data, string_data, int64_data, double_data, uint64_data
    tensor: Plan = dict.fromkeys((9, 4, 5, 6, 7, 10, 11))
    sparse: Plan = {1: tensor, 2: tensor}
    graph: dict[int, Plan | None] = {5: tensor, 15: sparse}
    attribute: Plan = {5: tensor, 6: graph, 10: tensor, 11: graph, 22: sparse, 23: sparse}
    node: Plan = {5: attribute}
    graph[1] = node
    return {7: graph, 20: {1: graph, 2: graph}, 25: {7: node}}


def load_model(path: Path, form: Form) -> tuple[ModelProto, str]:
    """The model in *path*, written as *form*, and the SHA-256 of the file.

    Raises:
        ImportFormatError: damaged, or not of this form.
    """
    from onnx import ModelProto

    with mapped(path) as buffer:
        model = ModelProto()
        if form is Form.BINARY:
            _fill_binary(model, buffer, path)
        elif form is Form.TEXT:
            _fill_text(model, TextReader(buffer, path))
        else:
            model = _parsed(buffer, path, form)
        # last, so that a large damaged file is refused at once
        return model, sha256(buffer)


def _fill_binary(model: ModelProto, buffer: Buffer, path: Path) -> None:
    from google.protobuf.message import DecodeError

    try:
        model.ParseFromString(without_long(buffer, _plans(), _LONG))
    except (DecodeError, ValueError) as error:
        raise ImportFormatError(path, f"damaged ONNX model: {error}", hint=_HINT) from error


def _fill_text(model: ModelProto, reader: TextReader) -> None:
    for event in reader.events(b"graph"):
        target = model if event.depth == 0 else model.graph
        if event.kind is EventKind.ENTER:
            model.graph.SetInParent()
        elif event.kind is EventKind.FIELD:
            with reader.told(event.offset):
                fill(target, [(event.name, event.value)])


def _parsed(buffer: Buffer, path: Path, form: Form) -> ModelProto:
    """A model in JSON or ONNX text; both parsers are recursive, so nesting is looked at first."""
    if len(buffer) > MAX_TEXT_BYTES:
        what = f"{form.value} of more than {MAX_TEXT_BYTES >> 20} MiB"
        raise ImportFormatError(path, what, hint="save it as a binary .onnx")
    text = buffer[:].decode("utf-8", "replace")
    if _nesting(text) > _MAX_NESTING:
        raise ImportFormatError(path, f"nested deeper than {_MAX_NESTING}", hint=_HINT)
    return _from_json(text, path) if form is Form.JSON else _from_syntax(text, path)


def _from_json(text: str, path: Path) -> ModelProto:
    from google.protobuf.json_format import Parse, ParseError
    from onnx import ModelProto

    try:
        return Parse(text, ModelProto(), ignore_unknown_fields=True)
    except (ParseError, ValueError, RecursionError) as error:
        raise ImportFormatError(path, _one_line(error), hint=_HINT) from error


def _from_syntax(text: str, path: Path) -> ModelProto:
    from onnx import parser

    try:
        return parser.parse_model(text)
    except (parser.ParseError, ValueError, RuntimeError) as error:
        raise ImportFormatError(path, _one_line(error), hint=_HINT) from error


def _nesting(text: str) -> int:
    """An upper bound of how deep brackets are nested; those in texts count, too."""
    deepest = depth = 0
    for char in text:
        if char in "{[(<":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "}])>" and depth:
            depth -= 1
    return deepest


def _one_line(error: Exception) -> str:
    return f"damaged ONNX model: {' '.join(str(error).split())[:300]}"


# The functions a model defines, and how far calls of them are expanded.


def function_key(node: NodeProto) -> str:
    """What a node's function is found by: its domain, name and overload."""
    return _key(node.domain, node.op_type, getattr(node, "overload", ""))


def _key(domain: str, name: str, overload: str) -> str:
    domain_name = "" if domain == "ai.onnx" else domain
    return f"{domain_name}::{name}" + (f"::{overload}" if overload else "")


class Functions:
    """The functions of *model*; a model may define a standard op anew."""

    def __init__(self, model: ModelProto) -> None:
        self._functions: dict[str, FunctionProto] = {
            _key(function.domain, function.name, getattr(function, "overload", "")): function
            for function in model.functions
        }
        self._expansion = Expansion()

    def enter(self, key: str, chain: tuple[str, ...], op: str) -> FunctionProto | None:
        """The function *key* for the call *op* inside the functions *chain*; None to leave it."""
        function = self._functions.get(key)
        if function is None or not self._expansion.enters(key, len(function.node), chain, op):
            return None
        return function

    def can_be_expanded(self) -> bool:
        """Whether all calls together stay within bounds: a runtime expands them all."""
        calls = {
            key: [function_key(node) for node in _all_nodes(function.node)]
            for key, function in self._functions.items()
        }
        sizes: dict[str, int] = {}
        for start in calls:
            stack = [start]
            while stack:
                key = stack[-1]
                open_ = [call for call in calls[key] if call in calls and call not in sizes]
                if not open_:
                    sizes[stack.pop()] = sum(1 + sizes.get(call, 0) for call in calls[key])
                elif open_[0] in stack or len(stack) > MAX_DEPTH:
                    return False
                else:
                    stack.append(open_[0])
        return all(size <= MAX_BODY_OPS for size in sizes.values())

    def warnings(self) -> list[str]:
        """What was not expanded, as lines for the user."""
        uncalled = sorted(self._functions.keys() - self._expansion.called)
        what = "local {function is|functions are} called by nothing and {was|were} left out"
        return [*self._expansion.warnings(), *told_of(uncalled, what)]


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attr in node.attribute:
            for graph in [attr.g] if attr.HasField("g") else attr.graphs:
                waiting.extend(graph.node)
