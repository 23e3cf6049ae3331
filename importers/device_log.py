"""Logs of the device's software (plog): errors, overflows and messages of the op compiler.

A line is ``[ERROR] GE(370,python3):2023-07-13-07:41:07.724.793 [file.cc:227]370 Function:text``.
Lines without such a head go on with the one before. What training scripts print of their loss
scale stands in logs of any kind: ``>>> Current Loss Scale >>>  [1024.0]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from graphstore.errors import InputError
from importers.archives import refuse_archive, unpack_hint

_HEAD = re.compile(
    r"\[(?P<level>ERROR|WARNING|INFO|DEBUG|EVENT|TRACE)\] ?(?P<module>\w+)\((?P<process>[^)]*)\): ?"
    r"(?P<time>[\d:.-]+) (?P<text>.*)"
)
_CODE = re.compile(r"(?:E|EZ|EI|EE|EH|EJ|EF)\d{4,5}: ")
_OVERFLOW = re.compile(r"\bover[ _]?flow(?:s|ed)?\b|\b(?:207003|207016)\b", re.IGNORECASE)
_NO_OVERFLOW = re.compile(
    r"stack ?overflow|overflow_?detection|overflow_flag|integer overflow", re.I
)
_COMPILE = re.compile(r"compile|pre-?build|oppath", re.IGNORECASE)
_EXCEPTION = re.compile(
    r"fault kernel|aicore exception|aivec|task exception|error info", re.IGNORECASE
)
_EMPTY = re.compile(
    r"report error module_type|args\(\d+ to|args print|(?:begin|end) to load|dump args data"
)
"""Lines around an error that say nothing of it, but for those that name what failed."""
_FAULT = re.compile(r"fault kernel", re.IGNORECASE)
_NAMED = re.compile(
    r"\b(?:origin_op_name|op_name|node_name|kernel[ _]name|node|op|name)\s*[\[=:(]\s*\[?"
    r"(?P<name>[\w./:\-]+)",
    re.IGNORECASE,
)
_TASK = re.compile(r"\btask_id[=:\s]+(?P<task>\d+)")
_STREAM = re.compile(r"\bstream_id[=:\s]+(?P<stream>\d+)")
_SCALE = re.compile(
    r"loss[ _]?scale(?:[ _]?value)?(?: is)?[^\d\n\-]{0,20}(?P<value>\d+(?:\.\d+)?(?:e[+-]?\d+)?)",
    re.IGNORECASE,
)
_ENDINGS = (".log", ".txt", ".out")
_LONGEST = 8192
_MOST_TEXT = 400
_MOST_FILES = 10_000


class LogKind(StrEnum):
    """What a message is about."""

    OVERFLOW = "overflow"
    COMPILE = "compile"
    EXCEPTION = "exception"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A message of a log: where it stands, what it is about, and the names in it.

    ``names`` may be of ops or kernels; ``task`` and ``stream`` are those of the device.
    """

    kind: LogKind
    path: Path
    line: int
    time: str
    module: str
    text: str
    names: tuple[str, ...]
    task: int | None
    stream: int | None


@dataclass(frozen=True, slots=True)
class LossScale:
    """A loss scale that was printed."""

    path: Path
    line: int
    value: float


@dataclass(frozen=True, slots=True)
class DeviceLog:
    """What the logs of ``files`` files say."""

    files: int
    events: tuple[LogEvent, ...]
    scales: tuple[LossScale, ...]


def read_logs(paths: list[Path]) -> DeviceLog:
    """The messages in log files, and in those of folders at any depth, in the order of the files.

    Raises:
        InputError: a path is missing, or holds no log.
    """
    files = [file for path in paths for file in _files(path)]
    events: list[LogEvent] = []
    scales: list[LossScale] = []
    for file in files:
        for line, text in _lines(file):
            if (event := _event(file, line, text)) is not None:
                events.append(event)
            if (match := _SCALE.search(text)) is not None and _HEAD.match(text) is None:
                scales.append(LossScale(file, line, float(match["value"])))
    return DeviceLog(len(files), tuple(events), tuple(scales))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        refuse_archive(path, "a log")
        return [path]
    if not path.is_dir():
        raise InputError("no such log", where=str(path))
    listed = (path for path in path.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    files = sorted(path for path, _ in zip(listed, range(_MOST_FILES), strict=False))
    if not files:
        raise InputError("there is no log in this folder", where=str(path), hint=unpack_hint(path))
    return files


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, cut where they are longer than any message."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST):
                number += 1
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
                while line and not line.endswith(b"\n"):
                    line = file.readline(_LONGEST)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"the log cannot be read: {why}", where=str(path)) from error


def _event(path: Path, line: int, text: str) -> LogEvent | None:
    head = _HEAD.match(text)
    message_text = head["text"] if head is not None else text
    kind = _kind(message_text, head["level"] if head is not None else "")
    if kind is None:
        return None
    task, stream = _TASK.search(message_text), _STREAM.search(message_text)
    return LogEvent(
        kind,
        path,
        line,
        "" if head is None else head["time"],
        "" if head is None else head["module"],
        message_text if len(message_text) <= _MOST_TEXT else f"{message_text[:_MOST_TEXT]}...",
        tuple(dict.fromkeys(match["name"].strip(".:") for match in _NAMED.finditer(message_text))),
        None if task is None else int(task["task"]),
        None if stream is None else int(stream["stream"]),
    )


def _kind(text: str, level: str) -> LogKind | None:
    """What a message of this level is about; None if it need not be told. Without a level it is
    one if it begins with an error's code."""
    is_error = level == "ERROR" or (not level and _CODE.match(text.strip()) is not None)
    is_overflow = _OVERFLOW.search(text) is not None and _NO_OVERFLOW.search(text) is None
    if is_overflow and (is_error or level in ("WARNING", "EVENT")):
        return LogKind.OVERFLOW
    if "Failed to compile Op" in text or (is_error and _COMPILE.search(text) is not None):
        return LogKind.COMPILE
    if not is_error or (_EMPTY.search(text) is not None and _FAULT.search(text) is None):
        return None
    return LogKind.EXCEPTION if _EXCEPTION.search(text) is not None else LogKind.ERROR
