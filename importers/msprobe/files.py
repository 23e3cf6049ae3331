"""Find and load the JSON files of one recorded run: its calls, their nesting, their stacks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError
from importers.source import mapped, sha256

MAX_BYTES = 1 << 30
"""Larger files are refused: their content would take many times that in memory."""

DUMP, CONSTRUCT, STACK = "dump.json", "construct.json", "stack.json"
_HINT = "dump the run again, or copy the file again"
_MAX_FOLDERS = 10_000
_DEPTH = 3  # step0/rank0/dump.json below what the user gives
_CALL = rb'"[^"\\\n]{1,2000}\.(?:forward|backward)(?:\.\d+)?"'
_IS_DUMP = re.compile(rb'\s*\{[^{}\[\]]*"(?:task|level)"\s*:')
# The call around each call, with the number of the micro step in runs of Megatron.
_PARENT = rb'(?:null|"[^"\\\n]*")'
_IS_CONSTRUCT = re.compile(
    rb"\s*\{\s*%(call)s\s*:\s*(?:%(parent)s|\[\s*%(parent)s\s*,\s*\d+\s*\])\s*[,}]"
    % {b"call": _CALL, b"parent": _PARENT}
)
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"%(h)s%(l)s|(%(h)s|%(l)s)|\\." % {b"h": _HIGH, b"l": _LOW})
_IS_STACK = re.compile(rb"\s*\{\s*(?:%s\s*:\s*\[|\"\d+\"\s*:\s*\[\s*\[\s*%s)" % (_CALL, _CALL))


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What the files of a run hold; ``construct`` and ``stack`` are empty if not there.

    ``calls`` are the entries of ``dump.json``, None where there is only a construct file.
    """

    path: Path
    sha256: str
    header: Mapping[str, Any]
    calls: Mapping[str, Any] | None
    construct: Mapping[str, Any]
    stack: Mapping[str, Any]


def kind_of(head: bytes) -> str:
    """Which of the three files starts with *head*; empty for none."""
    start = head[3:] if head.startswith(b"\xef\xbb\xbf") else head
    if _IS_DUMP.match(start) and b'"data"' in start:
        return DUMP
    if _IS_CONSTRUCT.match(start):
        return CONSTRUCT
    return STACK if _IS_STACK.match(start) else ""


def runs_in(folder: Path) -> list[Path]:
    """The folders with a ``dump.json`` in or below *folder*, by path; links are not followed."""
    found: list[Path] = []
    level = [folder]
    looked_at = 0
    for depth in range(_DEPTH + 1):
        below: list[Path] = []
        for each in level[: _MAX_FOLDERS - looked_at]:
            looked_at += 1
            if (each / DUMP).is_file():
                found.append(each)
            elif depth < _DEPTH:
                below.extend(_folders_in(each))
        level = below
    return sorted(found)


def _folders_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
    except PermissionError:  # what may not be looked into holds no run for us
        return []


def load_run(path: Path) -> RunFiles:
    """The run that the file *path* belongs to.

    Raises:
        ImportFormatError: missing, no JSON, too large, or not of a run.
    """
    with mapped(path) as buffer:
        kind = kind_of(bytes(buffer[:4096]))
    beside = path.with_name(DUMP)
    if kind != DUMP and beside.is_file():
        path, kind = beside, DUMP
    if kind == STACK:
        raise ImportFormatError(path, "a stack file alone", hint=f"its {DUMP} belongs beside it")
    content, digest = _load(path)
    construct = content if kind == CONSTRUCT else _beside(path, CONSTRUCT)
    calls = None if kind == CONSTRUCT else content.get("data")
    if calls is not None and not isinstance(calls, dict):
        raise ImportFormatError(path, '"data" is no list of calls by name', hint=_HINT)
    header = {} if kind == CONSTRUCT else {k: v for k, v in content.items() if k != "data"}
    return RunFiles(path, digest, header, calls, construct, _beside(path, STACK))


def _beside(path: Path, name: str) -> Mapping[str, Any]:
    file = path.with_name(name)
    return _load(file)[0] if file.is_file() else {}


def _load(path: Path) -> tuple[dict[str, Any], str]:
    with mapped(path) as buffer:
        if len(buffer) > MAX_BYTES:
            what = f"larger than {MAX_BYTES >> 30} GiB"
            raise ImportFormatError(path, what, hint="dump fewer steps or calls into one file")
        digest = sha256(buffer)
        data = buffer[:]
    try:
        content = json.loads(_whole_characters(data))
    except json.JSONDecodeError as error:
        raise ImportFormatError(
            path, f"no JSON: {error.msg}", line=error.lineno, column=error.colno, hint=_HINT
        ) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, huge numbers, deep nesting
        raise ImportFormatError(path, f"no JSON we can read: {error}", hint=_HINT) from error
    if not isinstance(content, dict):
        raise ImportFormatError(path, "no JSON object", hint=_HINT)
    return content, digest


def _whole_characters(data: bytes) -> bytes:
    """*data* without the halves of characters JSON can say: nothing could print or store them."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)
