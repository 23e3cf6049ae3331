"""Read runs of PyTorch and MindSpore recorded by msprobe, as graphs of their calls."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph, TensorIO
from importers.contract import Confidence, Detection
from importers.nesting import json_fault
from importers.source import mapped, sha256

if TYPE_CHECKING:
    pass

MAX_BYTES = 1 << 30
"""Larger files are refused: their content would take many times that in memory."""

DUMP, CONSTRUCT, STACK = "dump.json", "construct.json", "stack.json"
DEBUG = "debug.json"
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


LentTensor: TypeAlias = tuple[Path, str, Mapping[str, Any], TensorIO, int]
"""A ``dump.json``, a call of it with its entry, and which of its tensors."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What the files of a run hold; ``construct`` and ``stack`` are empty if not there.

    ``calls`` are the entries of ``dump.json``, None where there is only a construct file. The
    values of tensors that were ``lent`` by other files are there, not in those of this run.
    """

    path: Path
    sha256: str
    header: Mapping[str, Any]
    calls: Mapping[str, Any] | None
    construct: Mapping[str, Any]
    stack: Mapping[str, Any]
    lent: Mapping[tuple[str, TensorIO, int], LentTensor] = field(default_factory=dict)


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
            if (each / DUMP).is_file() or (each / DEBUG).is_file():
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
        raise ImportFormatError(path, "a stack file alone", hint=f"its {DUMP} belongs next to it")
    content, digest = _load(path)
    construct = content if kind == CONSTRUCT else _beside(path, CONSTRUCT)
    calls = None if kind == CONSTRUCT else content.get("data")
    if calls is not None and not isinstance(calls, dict):
        raise ImportFormatError(path, '"data" is not a list of calls by name', hint=_HINT)
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
            path, f"no JSON: {json_fault(error)}", line=error.lineno, column=error.colno, hint=_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else None
        what = f"no JSON we can read: {json_fault(error)}"
        raise ImportFormatError(path, what, offset=at, hint=_HINT) from error
    if not isinstance(content, dict):
        raise ImportFormatError(path, "no JSON object", hint=_HINT)
    return content, digest


def _whole_characters(data: bytes) -> bytes:
    """*data* without the halves of characters JSON can say: nothing could print or store them."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data)


_NO = Detection(Confidence.NO, "")
_SHOWN = 8


class MsprobeImporter:
    """Importer of ``dump.json`` with the ``construct.json`` and ``stack.json`` beside it."""

    name = "msprobe"
    reads = "msprobe dump.json or debug.json, or its folder"
    options: Mapping[str, str] = {
        "step": "the number of the step, where a folder holds several",
        "rank": "the number of the rank, where a folder holds several",
    }

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the first keys; a folder by the ``dump.json`` in or below it."""
        if not head:
            runs = runs_in(path) if path.is_dir() else []
            if not runs:
                return _NO
            folders = "1 folder" if len(runs) == 1 else f"{len(runs)} folders"
            return Detection(Confidence.SURE, f"{folders} with a {DUMP}")
        kind = kind_of(head)
        if kind == DUMP:
            return Detection(Confidence.SURE, "JSON with a task, a level and the data of calls")
        if kind == CONSTRUCT:
            return Detection(Confidence.SURE, "JSON that says which call ran in which")
        if kind == STACK:
            return Detection(Confidence.MAYBE, "JSON with the stacks of calls")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The run that *path*, a file or a folder, belongs to."""
        return self.read_with(path, {})

    def read_with(self, path: Path, options: Mapping[str, str]) -> ModelGraph:
        """The run that *path* belongs to; ``step`` and ``rank`` choose among several."""
        from importers.msprobe.graph import run_graph
        from importers.msprobe.job_index import job_graph, job_steps

        if path.is_dir():
            steps = [] if "rank" in options else job_steps(path, options.get("step"))
            if len(steps) == 1:
                return job_graph(steps[0])
            folder = _chosen(path, options)
            path = folder / (DUMP if (folder / DUMP).is_file() else DEBUG)
        return run_graph(load_run(path))


def _chosen(folder: Path, options: Mapping[str, str]) -> Path:
    from importers.dumps.folder import leaf_of  # readers of dumps load protobuf

    runs = runs_in(folder)
    levels = ((run, leaf_of(folder, run)) for run in runs)
    told = ((run, {"step": leaf.step, "rank": leaf.device}) for run, leaf in levels)
    fitting = [run for run, level in told if options.items() <= level.items()]
    if len(fitting) == 1:
        return fitting[0]
    names = [str(run.relative_to(folder)) for run in fitting or runs]
    listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if not runs:
        raise ImportFormatError(folder, f"no {DUMP} in this folder")
    if not fitting:
        wanted = ", ".join(f"{key} {value}" for key, value in options.items())
        raise InputError(f"no run of {wanted} here", where=str(folder), hint=f"there are {listed}")
    raise InputError(
        f"{len(fitting)} runs are in this folder", where=str(folder), hint=f"give one of {listed}"
    )
