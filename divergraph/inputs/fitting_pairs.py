"""Graphs and dumps below a folder that fit together, as the two sides of a comparison."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from divergraph.inputs.sources import READ_ANEW, DumpSource, load_dumps, load_graph
from graphstore.errors import DivergraphError
from graphstore.model import GraphKind, ModelGraph
from importers.dumps.detect import detect_dumps
from importers.dumps.folder import is_dump_name
from importers.dumps.names import counted
from importers.registry import detect

SECONDS = 20.0
_ENTRIES, _DEPTH = 20_000, 10
"""Files and folders looked at, and levels below the folder."""
_GRAPHS, _DUMPS, _PAIRS = 200, 48, 20
"""Graphs that are read, dumps held against each, pairs that are told."""
_LARGEST = 512 << 20
"""Bytes of a file above which it is not read only to see whether something fits."""
_FITS, _SHARED = 0.5, 0.3
"""Least share of a dump's files that belong to the graph, and of ops found on the other side."""


@dataclass(frozen=True, slots=True)
class FittingSide:
    """A graph with a dump of it, of which ``tensors`` belong to its ops."""

    graph: Path
    dump: Path
    tensors: int


@dataclass(frozen=True, slots=True)
class FittingPair:
    """Two sides of one model: of the ``ops`` of the device's graph ``shared`` are, or are made of,
    ops of the golden one."""

    golden: FittingSide
    device: FittingSide
    shared: int
    ops: int


@dataclass(frozen=True, slots=True)
class FittingPairs:
    """The pairs below ``folder``, the best first. ``graphs`` and ``dumps`` were found in all;
    ``cut`` says why more may be there, if so."""

    folder: Path
    pairs: tuple[FittingPair, ...]
    graphs: tuple[Path, ...]
    dumps: tuple[Path, ...]
    cut: str = ""


def fitting_pairs(folder: Path, seconds: float = SECONDS) -> FittingPairs:
    """Look below *folder* for about so many *seconds*; links to folders are not followed."""
    return _Search(folder, time.monotonic() + seconds).found()


class _Search:
    def __init__(self, folder: Path, end: float) -> None:
        self._folder, self._end = folder, end
        self._cut = ""

    def found(self) -> FittingPairs:
        graphs, dumps = self._places()
        golden: list[tuple[FittingSide, ModelGraph]] = []
        device: list[tuple[FittingSide, ModelGraph]] = []
        for graph, path in self._read(graphs):
            sides = self._sides(path, graph, dumps)
            (device if graph.kind is GraphKind.DEVICE else golden).extend(
                (side, graph) for side in sides
            )
        # A stand-in for a device, or the same model run by another program; a device itself,
        # where there is one, is what is looked for.
        pairs = [
            pair
            for others in (device, golden)
            for pair in sorted(
                _best(_pairs(golden, others)),
                key=lambda pair: (*_fitting(pair), counted(str(pair.device.dump))),
            )
        ]
        if len(pairs) > _PAIRS:
            self._cut = self._cut or f"{len(pairs) - _PAIRS} more fit"
        best_pairs = tuple(pairs[:_PAIRS])
        return FittingPairs(self._folder, best_pairs, tuple(graphs), tuple(dumps), self._cut)

    def _late(self) -> bool:
        if time.monotonic() < self._end:
            return False
        self._cut = self._cut or "the time was over"
        return True

    def _places(self) -> tuple[list[Path], list[Path]]:
        """The graphs and the dumps below the folder.

        A folder of a graph (a SavedModel, phases of one graph, a run of msprobe) is taken whole;
        of several in each other, as an importer also looks into folders, the innermost.
        """
        graph_folders: dict[Path, set[str]] = {}
        single: dict[Path, set[str]] = {}
        dumps: list[Path] = []
        for folder, files in self._folders():
            if self._late():
                break
            # A damaged file, or one that may not be read, says nothing about the others.
            with suppress(DivergraphError, OSError):
                if detect_dumps(folder):
                    dumps.append(folder)
            if formats := self._formats(folder):
                graph_folders[folder] = formats
            formats_of = {file: formats for file in files if (formats := self._formats(file))}
            nets = any(file.suffix == ".prototxt" for file in formats_of)
            # a .caffemodel beside a net holds its weights: its own layers are those of training
            single |= {
                file: formats
                for file, formats in formats_of.items()
                if not (nets and file.suffix == ".caffemodel")
            }
        inner = [
            folder
            for folder in graph_folders
            if not any(folder in other.parents for other in graph_folders)
        ]
        for folder in inner:
            # The original model may lie beside the device's graphs.
            parts = graph_folders[folder] | (
                {"ge_onnx"} if "ge_proto_text" in graph_folders[folder] else set()
            )
            for file in [file for file in single if file.parent == folder]:
                if single[file] & parts:
                    del single[file]
        return [*inner, *single], dumps

    def _folders(self) -> Iterator[tuple[Path, list[Path]]]:
        """Each folder with those of its files that may be graphs, the nearest folders first."""
        waiting, seen = [(self._folder, 0)], 0
        while waiting:
            folder, depth = waiting.pop(0)
            files: list[Path] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in sorted(entries, key=lambda entry: entry.name):
                        seen += 1
                        if entry.name.startswith("."):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append((Path(entry.path), depth + 1))
                        elif entry.is_file() and not is_dump_name(entry.name):
                            files.append(Path(entry.path))
            except OSError:
                continue
            if seen > _ENTRIES:
                self._cut = self._cut or f"only {_ENTRIES} files and folders were looked at"
                return
            waiting = [entry for entry in waiting if entry[1] <= _DEPTH]
            yield folder, files

    def _formats(self, path: Path) -> set[str]:
        """What a graph at *path* can be read as; nothing if it is none."""
        if self._late():
            return set()
        try:
            return {importer.name for importer, _ in detect(path)}
        except (DivergraphError, OSError):
            return set()

    def _read(self, paths: Iterable[Path]) -> Iterator[tuple[ModelGraph, Path]]:
        """The graphs at *paths*, the small ones first."""
        sized = sorted((_size(path), path) for path in paths)
        if len(sized) > _GRAPHS:
            self._cut = self._cut or f"only {_GRAPHS} graphs were read"
        for size, path in sized[:_GRAPHS]:
            if size > _LARGEST:
                self._cut = self._cut or f"{path.name} is too large to be read for this"
            elif not self._late():
                with suppress(DivergraphError, OSError):
                    yield load_graph(path).graph, path

    def _sides(self, path: Path, graph: ModelGraph, dumps: Iterable[Path]) -> list[FittingSide]:
        """*graph* with the dumps that fit it; of those that fit as well, the nearest."""
        ranked: list[tuple[tuple[int, int], FittingSide]] = []
        for dump in sorted(dumps, key=lambda folder: -_common(path, folder))[:_DUMPS]:
            if self._late():
                break
            try:
                source = load_dumps(dump, graph, "device", files=READ_ANEW)
            except (DivergraphError, OSError):
                continue
            share, tensors = _fit(source)
            if share >= _FITS and source.path == dump:
                rank = round(10 * share), _common(path, dump)
                ranked.append((rank, FittingSide(path, dump, tensors)))
        best = max((rank for rank, _ in ranked), default=None)
        return [side for rank, side in ranked if rank == best]


def _pairs(
    golden: Iterable[tuple[FittingSide, ModelGraph]],
    device: Iterable[tuple[FittingSide, ModelGraph]],
) -> Iterator[FittingPair]:
    for (one, golden_graph), (other, device_graph) in product(golden, device):
        if one.dump == other.dump:
            continue
        if device_graph.kind is not GraphKind.DEVICE and _rank(one) >= _rank(other):
            continue  # either may be the golden side: once is enough
        shared, ops = _shared(golden_graph, device_graph)
        if ops and shared / ops >= _SHARED:
            yield FittingPair(one, other, shared, ops)


def _best(pairs: Iterable[FittingPair]) -> list[FittingPair]:
    """Each device dump with the device graph and the golden side that fit it best."""
    best: dict[Path, FittingPair] = {}
    for pair in pairs:
        dump = pair.device.dump
        best[dump] = min(best.get(dump, pair), pair, key=_preferred)
    return list(best.values())


def _preferred(pair: FittingPair) -> tuple[object, ...]:
    """The lesser, the better: many ops fit, and both dumps are of one step."""
    other_step = pair.golden.dump.name != pair.device.dump.name
    ranks = _rank(pair.golden), _rank(pair.device)
    return *_fitting(pair), other_step, *ranks


def _fitting(pair: FittingPair) -> tuple[float, int]:
    """The lesser, the more of both graphs and of the device's dump belongs together."""
    return -pair.shared / pair.ops, -pair.device.tensors


def _rank(side: FittingSide) -> tuple[bool, str, str]:
    """Of two sides the lesser is golden: a model made for a device lies with its dump."""
    return side.graph.is_relative_to(side.dump), str(side.graph), str(side.dump)


def _shared(golden: ModelGraph, device: ModelGraph) -> tuple[int, int]:
    ops = golden.op_index()
    shared = 0
    for op in device.ops:
        names = (op.id,) if op.original_names is None else op.original_names
        shared += any(name in ops for name in names)
    return shared, len(device.ops)


def _fit(source: DumpSource) -> tuple[float, int]:
    """The share of a dump's files that belong to the graph, and how many tensors those hold."""
    tensors, strangers = len(source.index.tensors), len(source.index.unmatched)
    return tensors / max(1, tensors + strangers), tensors


def _common(one: Path, other: Path) -> int:
    """How many folders two paths have in common."""
    pairs = enumerate(zip(one.parts, other.parts, strict=False))
    shortest = min(len(one.parts), len(other.parts))
    return next((number for number, (a, b) in pairs if a != b), shortest)


def _size(path: Path) -> int:
    try:
        return 0 if path.is_dir() else path.stat().st_size
    except OSError:
        return 0
