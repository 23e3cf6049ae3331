"""Read a GE graph dump (``ge_proto_*.txt``, text of ``ge.proto.ModelDef``), or of a folder of
dumps the graph that ran.

File names: graph_metadef/graph/utils/graph_utils.cc of GE; phases in pipeline order from
ge_dump_graph_whitelist.h.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.ge_proto.assembly import RawGraph, assemble
from importers.proto.text_reader import EventKind, TextReader, outline, unread_entries
from importers.proto.values import text
from importers.source import mapped, sha256

_FILE = re.compile(r"ge_proto_(?P<counter>\d+)_(?:(?:aclop_)?graph_(?P<graph>\d+)_)?(?P<phase>.+)")
_PHASES = """
    PreRunBegin PreRunAfterNormalizeGraph AfterInfershape PreRunAfterPrepare
    OptimizeQuantGraph_FeGraphFusionAfter OptimizeOriginalGraph_FeGraphFusionAfter
    PreRunAfterOptimizeOriginalGraph PreRunAfterOptimizeAfterStage1 PreRunAfterOptimizeSubgraph
    PreRunAfterOptimizeSubGraph PreRunAfterOptimizeGraphBeforeBuild ComputeGraphBeforeLowering
    ExeGraphBeforeOptimize ExecuteGraphAfterSplit PreRunAfterBuild Build
""".split()
_MAX_DEPTH = 4
_OP = re.compile(rb"\bop\s*+:?\s*+[{<]")
_ITERATOR = re.compile(rb"\btype\s*+:\s*+[\"'](?:\w*Iterator\w*|\w*GetNext\w*)[\"']")
_TRAILING_NUMBER = re.compile(r"(?P<stem>.*?)_?(?P<number>\d+)$")


@dataclass(frozen=True, slots=True)
class GraphChoice:
    """The chosen graph file, the rule that decided as one sentence, and the other files."""

    path: Path
    reason: str
    others: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: Path
    counter: int
    phase: str

    @property
    def rank(self) -> int:
        """The place of its phase in the pipeline, -1 for one off the list."""
        if self.phase.endswith("BeforeBuild"):  # ends with "Build" too, but is not built yet
            return _PHASES.index("PreRunAfterOptimizeGraphBeforeBuild")
        matching = [phase for phase in _PHASES if self.phase.endswith(phase)]
        return _PHASES.index(max(matching, key=len)) if matching else -1

    @property
    def is_build(self) -> bool:
        """Whether this is the graph that runs."""
        return self.rank >= _PHASES.index("PreRunAfterBuild")


def candidates(folder: Path) -> tuple[Path, ...]:
    """The ``ge_proto_*.txt`` files in *folder* and a few levels below, sorted by path.

    Links to folders are not followed: they may lead anywhere, and in circles.
    """
    return tuple(file.path for file in _candidate_files(folder))


def choose_graph(folder: Path, dump_dirs: Sequence[str]) -> GraphChoice:
    """The graph in *folder* that the dump is of.

    *dump_dirs* are the names of the model directories in the dump, as far as known. The
    rules in order: the phase Build; a graph name that fits one of *dump_dirs*; an op that
    feeds data (Iterator, GetNext); the most ops; the newest dump.

    Raises:
        ImportFormatError: there is no ``ge_proto_*.txt`` file.
    """
    files = _candidate_files(Path(folder))
    if not files:
        hint = "dump graphs with DUMP_GE_GRAPH=2, or give the graph file itself"
        raise ImportFormatError(folder, "no ge_proto_*.txt file in this folder", hint=hint)
    if len(files) == 1:
        only = files[0]
        return GraphChoice(only.path, f"{only.path.name} is the only graph in {folder}")
    chosen, reason = _chosen(files, tuple(dump_dirs))
    others = tuple(file.path for file in files if file is not chosen)
    return GraphChoice(chosen.path, f"{chosen.path.name} of {len(files)} graphs: {reason}", others)


def _candidate_files(folder: Path) -> list[_Candidate]:
    files: list[_Candidate] = []
    level = [folder]
    for _ in range(_MAX_DEPTH):
        children = [child for parent in level for child in _children(parent)]
        for child in children:
            match = _FILE.fullmatch(child.stem) if child.suffix == ".txt" else None
            if match is not None and _is(stat.S_ISREG, child):
                files.append(_Candidate(child, int(match["counter"]), match["phase"]))
        level = [child for child in children if _is(stat.S_ISDIR, child) and not child.is_symlink()]
    return sorted(files, key=lambda file: file.path)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    try:
        return kind(path.stat().st_mode)
    except OSError:
        return False  # a link to nowhere, or in a folder that may be listed but not entered


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except PermissionError:
        return []  # a locked folder beside the graphs is none of our business


def _chosen(files: list[_Candidate], dump_dirs: tuple[str, ...]) -> tuple[_Candidate, str]:
    best = max(file.rank for file in files)
    remaining = [file for file in files if file.rank == best]
    if remaining[0].is_build:
        reason = "it is the one of phase Build, which is what ran"
    elif best < 0:
        reason = "no phase is known, so the newest; none of them is a Build graph"
        return max(remaining, key=attrgetter("counter", "path")), reason
    else:
        reason = f"there is no Build graph, so the latest phase, {remaining[0].phase}"
    rules: tuple[tuple[Callable[[list[_Candidate]], list[_Candidate]], str], ...] = (
        (
            lambda all_: _named_like(all_, dump_dirs),
            "its graph is named like the dump",
        ),
        (
            lambda all_: [file for file in all_ if any(_matches(file.path, _ITERATOR))],
            "it is the one that reads data (Iterator or GetNext)",
        ),
        (_largest, "it has the most ops"),
        (
            lambda all_: [max(all_, key=attrgetter("counter", "path"))],
            "it is the newest dump",
        ),
    )
    for narrow, why in rules:
        if len(remaining) == 1:
            break
        narrowed = narrow(remaining)
        if narrowed and len(narrowed) < len(remaining):
            remaining, reason = narrowed, why
    return remaining[0], reason


def _named_like(files: list[_Candidate], dump_dirs: tuple[str, ...]) -> list[_Candidate]:
    names = {file.path: graph_name(file.path) for file in files}
    for fits in (_same, _same_number):
        fitting = [
            file for file in files if any(fits(names[file.path], folder) for folder in dump_dirs)
        ]
        if fitting:
            return fitting
    return []


def _same(graph: str, folder: str) -> bool:
    return graph != "" and folder in (graph, f"{graph}_0")


def _same_number(graph: str, folder: str) -> bool:
    """Runs of one program differ in the time stamp, not in the graph's own number."""
    mine, theirs = _TRAILING_NUMBER.fullmatch(graph), _TRAILING_NUMBER.fullmatch(folder)
    if mine is None or theirs is None or mine["number"] != theirs["number"]:
        return False
    return _without_digits(mine["stem"]) == _without_digits(theirs["stem"])


def _without_digits(name: str) -> str:
    return re.sub(r"\d+", "", name)


def graph_name(path: Path) -> str:
    """The name of the root graph in a dump, reading no more than needed; empty if unclear."""
    try:
        with mapped(path) as buffer:
            for event in TextReader(buffer, path).events(b"graph"):
                if event.depth == 1 and event.name == b"name":
                    return text(event.value)
    except (ImportFormatError, ValueError):
        return ""  # a broken file is no reason to give up the others
    return ""


def _largest(files: list[_Candidate]) -> list[_Candidate]:
    sizes = {file.path: sum(1 for _ in _matches(file.path, _OP)) for file in files}
    largest = max(sizes.values())
    return [file for file in files if sizes[file.path] == largest]


def _matches(path: Path, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    with suppress(ImportFormatError), mapped(path) as buffer:
        yield from pattern.finditer(buffer)


_FILE_NAME = re.compile(r"ge_proto_.*\.txt$")
_ONNX_ONLY = {(b"ir_version",), (b"opset_import",), (b"graph", b"node")}


class GeProtoImporter:
    """Importer of GE graph dumps: a file of any phase, or a folder of them."""

    name = "ge_proto_text"
    reads = "Ascend ge_proto_*.txt or their folder"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the outline ``graph { op {``; in a folder by the file names."""
        if not head:
            paths = candidates(path)
            reason = f"{len(paths)} ge_proto_*.txt in the folder"
            return Detection(Confidence.SURE if paths else Confidence.NO, reason)
        names = outline(head)
        if names & _ONNX_ONLY:
            return Detection(Confidence.NO, "it is ONNX text")
        if (b"graph", b"op") in names:
            return Detection(Confidence.SURE, "protobuf text with `graph { op {`")
        named = _FILE_NAME.search(path.name) is not None and b"\x00" not in head
        if named or (b"graph",) in names:
            reason = "named ge_proto_*.txt" if named else "protobuf text with `graph {`"
            return Detection(Confidence.MAYBE, reason)
        return Detection(Confidence.NO, "")

    def read(self, path: Path) -> ModelGraph:
        """The device graph in *path*; of a folder, the graph that ran."""
        if not path.is_dir():
            return read_ge_text(path)
        choice = choose_graph(path, ())
        graph = read_ge_text(choice.path)
        if not choice.others:
            return graph
        return replace(graph, warnings=(choice.reason, *graph.warnings))


def read_ge_text(path: Path) -> ModelGraph:
    """The device graph in the file *path*, its first graph as the root.

    Raises:
        ImportFormatError: with line and column, where the text is broken or cut.
    """
    with mapped(path) as buffer:
        reader = TextReader(buffer, path, unread_entries)
        graphs: list[RawGraph] = []
        model = RawGraph()
        for event in reader.events(b"graph"):
            if event.kind is EventKind.ENTER:
                graphs.append(RawGraph())
            elif event.kind is EventKind.FIELD:
                with reader.told(event.offset):
                    (graphs[-1] if event.depth else model).take(event.name, event.value)
        if not graphs or not graphs[0].nodes:
            hint = "an Ascend graph dump has `graph { op { ... } }`"
            raise ImportFormatError(path, "no op in its first graph", line=1, hint=hint)
        return assemble(graphs, model, path, sha256(buffer))
