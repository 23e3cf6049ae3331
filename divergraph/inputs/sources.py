"""Turn the user's paths into graphs and indexed dumps, saying what was chosen and why."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from divergraph.text.words import counted
from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph
from importers.archives import unpack_hint
from importers.dumps.contract import ANY_DUMP, DumpChoice, FoundDump
from importers.dumps.detect import detect_dumps, inner_levels, list_dumps, scan_dumps
from importers.dumps.folder import Leaf, dump_leaves, find_dump_folder, model_names
from importers.dumps.index import DamagedError, DumpIndex
from importers.dumps.model_inputs import with_model_inputs
from importers.ge_proto.importer import candidates, choose_graph
from importers.msprobe.importer import DEBUG, DUMP, runs_in
from importers.msprobe.job_index import job_steps, scan_job
from importers.msprobe.job_names import RANKS, is_job
from importers.registry import read_graph
from importers.source import read_head


class InputFiles:
    """Reads graphs and dump trees; a subclass may keep what it has read."""

    def read(self, path: Path, options: Mapping[str, str] | None = None) -> ModelGraph:
        """The graph in a file, as :func:`importers.registry.read_graph`."""
        return read_graph(path, options)

    def walk(self, root: Path) -> list[Leaf]:
        """The dumps below a folder, as :func:`importers.dumps.folder.dump_leaves`."""
        return dump_leaves(root)

    def scan(self, path: Path, graph: ModelGraph, choice: DumpChoice = ANY_DUMP) -> DumpIndex:
        """The tensors of a dump, as :func:`importers.dumps.detect.scan_dumps`."""
        return scan_dumps(path, graph, choice)


READ_ANEW = InputFiles()


@dataclass(frozen=True, slots=True)
class GraphSource:
    """A graph as read, and in ``notes`` how it was chosen where there was a choice."""

    graph: ModelGraph
    path: Path
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DumpSource:
    """The dumps of one side, resolved against that side's graph.

    ``decided`` names the options (``step``, ...) that chose among several dumps; ``others`` is how
    many more there are.
    """

    index: DumpIndex
    path: Path
    notes: tuple[str, ...] = ()
    decided: frozenset[str] = frozenset()
    others: int = 0


def dump_of(graph: Path, dump: Path | None, option: str) -> Path:
    """*dump*, or where that is None the folder of *graph*, a recorded run: it is graph and dump.

    Raises:
        InputError: there is none; *option* says which.
    """
    if dump is not None:
        return dump
    if graph.name in (DUMP, DEBUG) and graph.is_file():
        return graph.parent
    if graph.is_dir() and runs_in(graph):
        return graph
    raise InputError(
        f"{option} is missing",
        where=str(graph),
        hint="only msprobe's folders are graph and dump in one",
    )


def job_of(path: Path, choice: DumpChoice) -> Path | None:
    """The folder of the step at or below *path*, by *choice* or the first, where it holds several
    ranks of a recorded job and none is chosen; else None."""
    if choice.rank is not None or not path.is_dir():
        return None
    steps = job_steps(path, None if choice.step is None else str(choice.step))
    return steps[0] if steps else None


def weights_option(weights: Path | None) -> dict[str, str]:
    """The importer's option for the *weights* of a Caffe net; nothing for None."""
    return {} if weights is None else {"weights": str(weights)}


def load_graph(
    path: Path,
    dump_dir: Path | None = None,
    side: str = "device",
    options: Mapping[str, str] | None = None,
    choice: DumpChoice | None = None,
    files: InputFiles = READ_ANEW,
) -> GraphSource:
    """Read a graph file, or the right graph of a folder of ``ge_proto_*`` files.

    *options* go to the importer of the file's format. Of a folder with several msprobe
    runs *choice* (None: no choice is made) takes one as it does of dumps. *files* reads.

    Raises:
        InputError: the path is missing, unreadable or no graph.
    """
    read_head(path)  # says in one line what is missing or may not be read
    if choice is not None and path.is_dir() and len(runs_in(path)) > 1:
        return _one_run(path, dump_dir, side, choice, files)
    if not path.is_dir() or not candidates(path):
        graph = files.read(path, options)
        return GraphSource(graph, path, tuple(_job_remarks(graph, path, side)))
    names: list[str] = []
    if dump_dir is not None:
        _check_folder(dump_dir, side)
        names = model_names(dump_dir, files.walk)
    chosen = choose_graph(path, names)
    note = f"{side} graph {chosen.reason}"
    return GraphSource(files.read(chosen.path), chosen.path, (note,))


def _job_remarks(graph: ModelGraph, step: Path, side: str) -> Iterator[str]:
    if is_job(graph):
        ranks = graph.attrs[RANKS]
        count = counted(len(ranks) if isinstance(ranks, tuple) else 0, "rank")
        yield f"{side} graph {step.name}: {count} as one job (--rank takes one, --ranks each alone)"


def _one_run(
    path: Path, dump_dir: Path | None, side: str, choice: DumpChoice, files: InputFiles
) -> GraphSource:
    """The graph of one of the msprobe runs below *path*: the one whose dump is taken."""
    inside = dump_dir is not None and dump_dir.resolve().is_relative_to(path.resolve())
    folder = find_dump_folder(dump_dir if inside and dump_dir else path, None, choice, files.walk)
    note = f"{side} graph {_below(path, folder.path)}: {folder.reason}"
    return GraphSource(files.read(folder.path), folder.path, (note,))


def _below(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name


def load_dumps(
    path: Path,
    graph: ModelGraph,
    side: str,
    choice: DumpChoice = ANY_DUMP,
    files: InputFiles = READ_ANEW,
) -> DumpSource:
    """Find and index the dumps of *graph* under *path*, a folder or a file of results.

    *files* reads.

    Raises:
        InputError: no such folder, nothing of this *choice*, or no file in it belongs to
            the graph.
    """
    if is_job(graph):
        return _job_dump(path, graph, side)
    is_device = graph.framework is Framework.ASCEND
    if dumps := _dumps_at(path, side, only_file=is_device):
        index = files.scan(path, graph, choice)
        if index.tensors or path.is_file() or not _has_dumps_below(path):
            source = DumpSource(index, path, _dump_remarks(side, index), _decided(choice, dumps))
            return _checked(source, graph, side)
    folder = find_dump_folder(path, graph.name if is_device else None, choice, files.walk)
    rest = replace(choice, **dict.fromkeys(folder.decided))
    index = files.scan(folder.path, graph, rest)
    if is_device:
        index = with_model_inputs(index, graph)
    remarks = _dump_remarks(side, index)
    if folder.path != path:
        remarks = (f"{side} dump {_below(path, folder.path)}: {folder.reason}", *remarks)
    decided = folder.decided
    if (rest.rank, rest.step) != (None, None):
        decided |= _decided(rest, detect_dumps(folder.path))
    source = DumpSource(index, folder.path, remarks, decided, len(folder.others))
    return _checked(source, graph, side)


def _job_dump(step: Path, graph: ModelGraph, side: str) -> DumpSource:
    _check_folder(step, side)
    try:
        index = scan_job(step, graph)
    except DamagedError as error:
        raise InputError(
            error.detail, where=str(step), hint="copy or dump that rank again"
        ) from error
    return _checked(DumpSource(index, step, _dump_remarks(side, index)), graph, side)


def _dump_remarks(side: str, index: DumpIndex) -> tuple[str, ...]:
    return tuple(f"{side} dump: {note}" for note in index.notes)


def _has_dumps_below(path: Path) -> bool:
    return any(dump.path != path for dump in list_dumps(path))


def _checked(source: DumpSource, graph: ModelGraph, side: str) -> DumpSource:
    """*source*, if anything of it belongs to the graph, or tells of an overflow."""
    index, folder = source.index, source.path
    if index.overflows:
        return source
    if not index.files:
        raise InputError(
            "no dump files in this folder", where=str(folder), hint=f"check --{side}-dump"
        )
    if not index.tensors and not index.problems:
        raise InputError(
            f"none of the {index.files} files here belongs to an op of {graph.name!r}",
            where=str(folder),
            hint="is this the dump of that graph? docs/reference/dumps.md says how names match",
        )
    return source


def _decided(choice: DumpChoice, dumps: Iterable[FoundDump]) -> frozenset[str]:
    """What of the *choice* is among levels inside of *dumps*."""
    return frozenset(level for level in inner_levels(dumps) if getattr(choice, level) is not None)


def _dumps_at(path: Path, side: str, *, only_file: bool) -> tuple[FoundDump, ...]:
    """The dumps right at *path*, a folder or a file that is a whole dump by itself."""
    try:
        is_file = path.is_file()
    except OSError:  # said with the folder's check
        is_file = False
    dumps = detect_dumps(path) if is_file else ()
    if not dumps:
        _check_folder(path, side)
        dumps = () if only_file else detect_dumps(path)
    return dumps


def _check_folder(path: Path, side: str) -> None:
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError as error:
        raise InputError("no such folder", where=str(path), hint=f"check --{side}-dump") from error
    except OSError as error:
        raise InputError(
            f"the dump folder cannot be read: {error.strerror}", where=str(path)
        ) from error
    if not is_folder:
        raise InputError(
            "a dump is a folder of files, this is a file",
            where=str(path),
            hint=unpack_hint(path) or f"give the folder to --{side}-dump",
        )
