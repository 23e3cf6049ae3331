"""Ranks and steps compared as items of a job: by this process, or several beside it."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.comparison.graphs_once import GraphsOnce
from divergraph.jobs.journal import Journal, file_stamp, text_key
from divergraph.jobs.progress import NO_PROGRESS, Progress, tell_problem
from divergraph.version import __version__
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.transfer.portable import run_from_lines, run_lines
from importers.dumps.contract import FoundDump

R = TypeVar("R")

_DECIDING = [one.name for one in fields(CompareRequest) if one.name not in ("name", "workers")]
"""What of a request its result depends on."""
_FAST = 1
"""The level at which runs are packed: the next ones save little and take longer."""


@dataclass(frozen=True, slots=True)
class RankStep:
    """A rank and a step, None where the dumps have no such level."""

    rank: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        parts = [] if self.rank is None else [f"rank{self.rank}"]
        if self.step is not None:
            parts.append(f"step{self.step}")
        return ".".join(parts)

    def has(self, dump: FoundDump) -> bool:
        """True if a dump is of this rank and step, or has no such level."""
        return all(
            mine is None or not theirs or int(theirs) == mine
            for mine, theirs in ((self.rank, dump.rank), (self.step, dump.step))
        )


@dataclass(frozen=True, slots=True)
class PackedRun:
    """A run as it comes from a worker: packed lines without the graphs, and their files; or
    the ``problem`` why there is none."""

    lines: bytes = b""
    golden: str = ""
    device: str = ""
    problem: str = ""

    def unpacked(self, graphs: GraphsOnce) -> RunData:
        """The run, with the graphs that *graphs* reads."""
        sides = (graphs.read(Path(path)) for path in (self.golden, self.device))
        return run_from_lines(zlib.decompress(self.lines).splitlines(keepends=True), *sides)


@dataclass(frozen=True, slots=True)
class ComparePlace:
    """Compares one place after the other; runs are called *name*.rank0.step3.

    Without *graphs* those of the process are used: a worker gets this work with each place.
    """

    request: CompareRequest
    name: str
    progress: Progress = NO_PROGRESS
    graphs: GraphsOnce | None = None

    def __call__(self, item: RankStep) -> PackedRun:
        """The run of one place."""
        choice = replace(self.request.choice, rank=item.rank, step=item.step)
        request = replace(self.request, choice=choice, name=f"{self.name}.{item}")
        self.progress.stage(f"{item}: reading graphs")
        try:
            data = compare(request, _Named(self.progress, str(item)), self.graphs or _own_graphs())
        except InputError as error:
            return PackedRun(problem=str(error))
        lines = zlib.compress(b"".join(run_lines(data)), _FAST)
        inputs = data.run.inputs
        return PackedRun(lines, inputs["golden"], inputs["device"])

    def lost(self, item: RankStep, why: str) -> PackedRun:
        """A place that cannot be compared on this machine."""
        return PackedRun(problem=why)


@cache
def _own_graphs() -> GraphsOnce:
    """Those of this process."""
    return GraphsOnce()


class _Named:
    """Progress with the place before each stage."""

    def __init__(self, progress: Progress, place: str) -> None:
        self._progress = progress
        self._place = place

    def stage(self, text: str, total: int | None = None) -> None:
        self._progress.stage(f"{self._place}: {text}", total)

    def step(self, amount: int = 1, note: str = "") -> None:
        self._progress.step(amount, note)

    def problem(self, text: str) -> None:
        tell_problem(self._progress, f"{self._place}: {text}")


def places_journal(
    request: CompareRequest, places: Sequence[RankStep], dumps: Iterable[FoundDump]
) -> Journal[PackedRun]:
    """Keeps the runs of *places*. One counts again as long as the files of its *dumps* and of
    the model, and this version, stay the same."""
    name, stamp = _named_stamps(request, places, dumps)
    return _journal(f"places of {name}", stamp, _encoded, _decoded)


def part_journal(
    request: CompareRequest,
    places: Sequence[RankStep],
    dumps: Iterable[FoundDump],
    folder: Path,
) -> Journal[PackedRun]:
    """Keeps in *folder* what came of *places* for the process that asked for it: runs, as in a
    places journal, and problems, too."""
    name, stamp = _named_stamps(request, places, dumps)
    return _journal(f"part of {name}", stamp, _encoded, _decoded_part, folder)


def kept_journal(
    request: CompareRequest, places: Sequence[RankStep], dumps: Iterable[FoundDump]
) -> Journal[str]:
    """Keeps which runs of *places* the store has; they count as those of a places journal."""
    name, stamp = _named_stamps(request, places, dumps)
    return _journal(f"kept places of {name}", stamp, str, str)


def _named_stamps(
    request: CompareRequest, places: Sequence[RankStep], dumps: Iterable[FoundDump]
) -> tuple[str, Callable[[int], str]]:
    """What tells this comparison from others, and what the files of each place are."""
    all_dumps = tuple(dumps)
    settings = [str(Path.cwd())]
    settings += [repr(getattr(request, one)) for one in _DECIDING]

    @cache
    def folder_key(folder: Path) -> str:
        files = [folder] if folder.is_file() else sorted(folder.iterdir())
        files = [path for path in files if path.is_file()]
        stamps = file_stamp(files)
        return text_key(files, stamps) if stamps or not files else ""

    @cache
    def model_key() -> str:
        paths = [request.thresholds, request.match]
        files = [path for path in paths if path is not None]
        for path in (request.golden, request.device):
            inside = path if path.is_dir() else path.parent
            stem = "" if path.is_dir() else path.name.partition(".")[0]
            files += [one for one in sorted(inside.glob(f"{stem}*")) if one.is_file()]
        stamp_text = file_stamp(files)
        return stamp_text and text_key(files, stamp_text, __version__, settings)

    def stamp(number: int) -> str:
        place = places[number]
        parts = [folder_key(dump.path) for dump in all_dumps if place.has(dump)]
        key_parts = [model_key(), *parts]
        return text_key(str(place), key_parts) if all(key_parts) else ""

    return str(settings), stamp


def _journal(
    name: str,
    stamp: Callable[[int], str],
    encode: Callable[[R], Any],
    decode: Callable[[Any], R],
    folder: Path | None = None,
) -> Journal[R]:
    """Its lines take far less time than a place."""
    return Journal(
        lambda: name,
        lambda _: "place",
        encode,
        decode,
        folder=folder,
        worth_seconds=0,
        stamp=stamp,
    )


def _encoded(run: PackedRun) -> list[str]:
    return [base64.b64encode(run.lines).decode(), run.golden, run.device, run.problem]


def _decoded(value: list[str]) -> PackedRun:
    run = _decoded_part(value)
    if run.problem:
        raise ValueError("what could not be compared is tried again")
    return run


def _decoded_part(value: list[str]) -> PackedRun:
    lines, golden, device, problem = value
    return PackedRun(base64.b64decode(lines), golden, device, problem)
