"""The importer of MindSpore's graphs, in each of their forms."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.proto.wire import BLOCK, VARINT, WireField, outer_fields
from importers.source import read_head

_NO = Detection(Confidence.NO, "")
_OP_TYPE = re.compile(rb"[A-Za-z_][\w:@.-]*")
_TEXT = re.compile(rb"(?m)^# ?IR entry ?: ?@|^subgraph @\S+\(.*\{")
_PRODUCER = b"MindSpore"


class MindSporeFile(Enum):
    """How a graph of MindSpore is written."""

    COMPILER = "a graph that MindSpore's compiler left"
    BARE = "a graph of a MindSpore summary"
    MINDIR = "a MindIR model"
    TEXT = "MindSpore's IR as text"


def form_of(head: bytes) -> MindSporeFile | None:
    """How a file that starts with *head* is written; None if it is none of MindSpore's."""
    fields = outer_fields(head)
    kinds = {field.kind for field in fields}
    by_number = {field.number: field for field in reversed(fields)}
    if (1, BLOCK) in kinds and 2 in by_number and by_number[2].content == _PRODUCER:
        return MindSporeFile.MINDIR
    if kinds <= {(1, VARINT), (2, BLOCK), (3, VARINT), (4, BLOCK), (5, BLOCK)} and 4 in by_number:
        inner = outer_fields(by_number[4].content)
        return MindSporeFile.COMPILER if _starts_with_node(inner) else None
    if kinds and kinds <= {(number, BLOCK) for number in range(1, 7)} and _starts_with_node(fields):
        return MindSporeFile.BARE
    return MindSporeFile.TEXT if _TEXT.search(head) else None


def _starts_with_node(fields: list[WireField]) -> bool:
    """A graph's nodes come first, each with inputs (messages), a number, and a type of op."""
    if not fields or fields[0].kind != (1, BLOCK):
        return False
    node = outer_fields(fields[0].content)
    by_number = {field.number: field for field in reversed(node)}
    if not {2, 3} <= by_number.keys() or any(
        field.wire_type != BLOCK and field.number != 7 for field in node
    ):
        return False
    if not by_number[2].content.isdigit() or not _OP_TYPE.fullmatch(by_number[3].content):
        return False
    inputs = [outer_fields(field.content) for field in node if field.number == 1]
    return all(op_input and op_input[0].kind == (1, BLOCK) for op_input in inputs)


class MindSporeImporter:
    """Importer of ``ms_output_*.pb``, ``.mindir`` and ``.ir``."""

    name = "mindspore"
    reads = "MindSpore ms_output_*.pb, .mindir or .ir"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the outermost protobuf fields, or the titles of the text."""
        form = form_of(head)
        return _NO if form is None else Detection(Confidence.SURE, form.value)

    def read(self, path: Path) -> ModelGraph:
        """The graph of the file."""
        from importers.mindspore.compiler_graph import read_compiler_graph
        from importers.mindspore.ir_text import read_ir_text
        from importers.mindspore.mindir import read_mindir

        form = form_of(read_head(path))
        if form is MindSporeFile.MINDIR:
            return read_mindir(path)
        if form is MindSporeFile.TEXT:
            return read_ir_text(path)
        return read_compiler_graph(path, bare=form is MindSporeFile.BARE)
