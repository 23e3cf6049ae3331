"""Which fusion passes the compiler matched and used: ``fusion_result.json``.

The compiler leaves the file in the folder it ran in. It holds one object a graph, alone, in
a list, one after the other, or by graph id: ``{"session_and_graph_id": "0_1",
"graph_fusion": {"APass": {"match_times": "3", "effect_times": "2"}}, "ub_fusion": {...}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, ModelGraph
from importers.contract import Confidence, Detection
from importers.kept import some
from importers.source import mapped

FILE_NAME = "fusion_result.json"
GRAPH_PASSES = "fusion_passes"
"""The graph attribute that lists the passes that took effect on the graph."""

BUFFER_PASSES = "buffer_fusion_passes"
"""The graph attribute that lists those that put several ops into one kernel."""

_MAX_BYTES = 64 << 20
_KINDS = ("graph_fusion", "ub_fusion")
_IDS = ("session_and_graph_id", "graphId", "graph_id")
_ID_PREFIX = "session_and_graph_id_"
_MAX_TIMES = 1 << 63
_START = re.compile(r"[^\s,]")


@dataclass(frozen=True, slots=True)
class FusionPass:
    """A pass, how often its pattern matched and how often it changed the graph."""

    name: str
    matched: int
    effected: int

    def __str__(self) -> str:
        return f"{self.name}: {self.effected} of {self.matched}"


@dataclass(frozen=True, slots=True)
class FusionResult:
    """The passes run on one graph; ``graph`` is its ``<session>_<graph>`` id, maybe empty."""

    graph: str
    graph_passes: tuple[FusionPass, ...]
    buffer_passes: tuple[FusionPass, ...]


def detect(path: Path, head: bytes) -> Detection:
    """Whether *path*, which starts with *head*, lists fusion passes."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] not in (b"{", b"["):
        return Detection(Confidence.NO, "")
    if re.search(rb'"(?:graph_fusion|ub_fusion)"\s*+:\s*+(?:\{|null)', head):
        return Detection(Confidence.SURE, 'JSON with "graph_fusion" or "ub_fusion"')
    named = path.name == FILE_NAME
    return Detection(Confidence.MAYBE if named else Confidence.NO, f"named {FILE_NAME}")


def read_fusion_result(path: Path) -> tuple[FusionResult, ...]:
    """The passes listed in *path*, one value a graph.

    Raises:
        ImportFormatError: missing, too large, or no list of fusion passes; with the line.
    """
    with mapped(path) as buffer:
        if len(buffer) > _MAX_BYTES:
            raise ImportFormatError(path, f"{len(buffer)} bytes are no list of fusion passes")
        text = buffer[:].decode("utf-8", "replace").removeprefix("\ufeff")
    results: list[FusionResult] = []
    for at, value in _values(text, path):
        line = text.count("\n", 0, at) + 1
        try:
            results.extend(_results(value))
        except ValueError as error:
            raise ImportFormatError(path, str(error), line=line) from error
    if not results:
        raise ImportFormatError(path, "it lists no fusion passes", line=1)
    return tuple(results)


def summary(path: Path) -> str:
    """What the file at *path* says by itself, in words.

    Raises:
        ImportFormatError: it is damaged.
    """
    results = read_fusion_result(path)
    passes = [
        fusion_pass for one in results for fusion_pass in (*one.graph_passes, *one.buffer_passes)
    ]
    used = sorted(map(str, (fusion_pass for fusion_pass in passes if fusion_pass.effected)))
    graphs = "1 graph" if len(results) == 1 else f"{len(results)} graphs"
    names = f": {some(used, 5)}" if used else ""
    return f"{len(used)} of {len(passes)} passes took effect in {graphs}{names}"


def with_fusion_result(graph: ModelGraph, path: Path) -> ModelGraph:
    """*graph*, read from *path*, with the passes of a ``fusion_result.json`` beside it.

    They become the attributes :data:`GRAPH_PASSES` and :data:`BUFFER_PASSES`, those without
    effect left out. A damaged file only gets a warning.
    """
    result_path = path.parent / FILE_NAME
    if not result_path.is_file():
        return graph
    try:
        results = read_fusion_result(result_path)
    except ImportFormatError as error:
        return replace(graph, warnings=(*graph.warnings, f"no fusion passes: {error}"))
    fitting = _of_graph(results, graph)
    warnings: tuple[str, ...] = ()
    if not fitting:
        warnings = (f"{FILE_NAME} lists no graph with this one's id (it lists {len(results)})",)
    attrs: dict[str, AttrValue] = dict(graph.attrs)
    for key, passes in (
        (GRAPH_PASSES, [graph_pass for one in fitting for graph_pass in one.graph_passes]),
        (BUFFER_PASSES, [buffer_pass for one in fitting for buffer_pass in one.buffer_passes]),
    ):
        used = sorted(
            (fusion_pass for fusion_pass in passes if fusion_pass.effected),
            key=lambda fusion_pass: (-fusion_pass.effected, fusion_pass.name),
        )
        if used:
            attrs[key] = tuple(map(str, used))
    return replace(graph, attrs=attrs, warnings=(*graph.warnings, *warnings))


def passes_note(graph: ModelGraph) -> str:
    """The passes that took effect on *graph* as one line, empty if none are known."""
    lists = (graph.attrs.get(key, ()) for key in (GRAPH_PASSES, BUFFER_PASSES))
    listed = [
        str(name) for value in lists for name in (value if type(value) is tuple else (value,))
    ]
    return f"fusion passes in effect (of matches): {some(listed, 5)}" if listed else ""


def _of_graph(results: tuple[FusionResult, ...], graph: ModelGraph) -> list[FusionResult]:
    wanted = str(graph.attrs.get("_session_graph_id", "")).lstrip("-")
    fitting = [one for one in results if one.graph.lstrip("-") == wanted and wanted]
    return fitting or (list(results) if len(results) == 1 else [])


def _values(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of *text*, which may stand one after the other, with their places."""
    decoder = json.JSONDecoder(strict=False)
    end = 0
    while (start := _START.search(text, end)) is not None:
        at = start.start()
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            what = f"broken JSON: {getattr(error, 'msg', 'it is nested too deep')}"
            raise ImportFormatError(path, what, line=line) from error
        yield at, value


def _results(value: Any) -> Iterator[FusionResult]:
    if isinstance(value, list) and all(isinstance(element, dict) for element in value):
        for element in value:
            yield from _results(element)
    elif not isinstance(value, dict):
        raise ValueError("fusion results are JSON objects, or lists of such")
    elif any(kind in value for kind in _KINDS):
        graph = next((str(value[key]) for key in _IDS if key in value), "")
        yield FusionResult(graph, _passes(value, "graph_fusion"), _passes(value, "ub_fusion"))
    else:
        for key, element in value.items():
            if isinstance(element, dict) and any(kind in element for kind in _KINDS):
                for result in _results(element):
                    yield replace(result, graph=result.graph or key.removeprefix(_ID_PREFIX))


def _passes(value: dict[str, Any], kind: str) -> tuple[FusionPass, ...]:
    listed = value.get(kind) or {}
    if not isinstance(listed, dict):
        raise ValueError(f'"{kind}" holds no passes')  # noqa: TRY004 - the file is wrong
    return tuple(_pass(name, times) for name, times in listed.items())


def _pass(name: str, times: Any) -> FusionPass:
    if not isinstance(times, dict):
        raise ValueError(f"pass {name[:60]!r} has no match_times and effect_times")  # noqa: TRY004 - the file is wrong
    return FusionPass(name[:200], _times(times, "match_times"), _times(times, "effect_times"))


def _times(times: dict[str, Any], key: str) -> int:
    times_text = times.get(key, 0)
    if isinstance(times_text, str) and times_text.isdecimal() and len(times_text) < 20:
        times_text = int(times_text)
    if type(times_text) is not int or not 0 <= times_text < _MAX_TIMES:
        raise ValueError(f"{key} is {str(times_text)[:40]!r}, no count")
    return times_text
