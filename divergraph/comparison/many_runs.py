"""One comparison for each of many ranks and steps, and what they say together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from divergraph.comparison import CompareRequest
from divergraph.comparison.keep_run import compare_into, fresh_name
from divergraph.jobs.executors import BatchExecutor
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.metrics.pairs.many_pairs import Workers
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Counts, Run, Verdict
from importers.dumps.detect import FoundDump, list_dumps

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST = 1_000_000
_WORST = (Verdict.DIVERGED, Verdict.NOISE, Verdict.CLEAN, Verdict.NOT_COMPARED)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ranks or steps as the user names them; None stands for all there are."""

    numbers: tuple[int, ...] | None

    @classmethod
    def parsed(cls, text: str, option: str) -> Chosen:
        """``all``, or numbers and ranges with commas: ``0,1,4-7``.

        Raises:
            InputError: it is neither.
        """
        if text.strip() == "all":
            return cls(None)
        numbers: dict[int, None] = {}
        for part in text.split(","):
            match = _PART.fullmatch(part.strip())
            first = int(match[1]) if match else 0
            last = int(match[2] or first) if match else -1
            if match is None or last < first or last - first + len(numbers) > _MOST:
                raise InputError(f"{option} {text}: no list of numbers", hint="all, or 0,1,4-7")
            numbers |= dict.fromkeys(range(first, last + 1))
        return cls(tuple(numbers))


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


@dataclass(frozen=True, slots=True)
class PlaceRun:
    """What the run of one place says, or the ``problem`` why there is none.

    ``run`` is its record; the store has the rest under its name, if it was ``kept``. ``origins``
    are the ops the error starts at, in the order of the run's origins.
    """

    place: RankStep
    run: Run | None = None
    origins: tuple[str, ...] = ()
    kept: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ManyRuns:
    """All places in order, steps of a rank one after the other."""

    name: str
    runs: tuple[PlaceRun, ...]
    origins: tuple[tuple[str, int], ...] = field(default=())
    """The ops an error starts at and in how many places, most first."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all places."""
        found = {each.run.verdict for each in self.runs if each.run is not None}
        return next((verdict for verdict in _WORST if verdict in found), Verdict.NOT_COMPARED)

    @property
    def first(self) -> RankStep | None:
        """Where something diverged first: the lowest step, then the lowest rank."""
        runs = [(each.place, each.run) for each in self.runs if each.run is not None]
        bad = [place for place, run in runs if run.verdict is Verdict.DIVERGED]
        return min(bad, key=lambda place: (place.step or 0, place.rank or 0), default=None)

    @property
    def counts(self) -> Counts:
        """The counts of all places added up."""
        each = [astuple(run.run.counts) for run in self.runs if run.run is not None]
        return Counts(*map(sum, zip(*each, strict=True))) if each else Counts(0, 0, 0, 0, 0)


def compare_many(
    store: GraphStore,
    request: CompareRequest,
    ranks: Chosen | None,
    steps: Chosen | None,
    *,
    name: str | None = None,
    replace_it: bool = False,
    progress: Progress = NO_PROGRESS,
) -> ManyRuns:
    """Compare every chosen rank and step and keep a run ``NAME.rank0.step3`` of each.

    What cannot be compared in one place is that place's problem; the others go on.

    Raises:
        InputError: no such ranks or steps, or the first place already has a run.
    """
    places = list(find_places(request, ranks, steps))
    name = name or fresh_name(store)
    runs: list[PlaceRun] = []
    with closing(_SharedWorkers(request.workers)) as shared:
        request = replace(request, workers=shared.workers)
        for place in places:
            choice = replace(request.choice, rank=place.rank, step=place.step)
            progress.stage(f"{place}: reading graphs")
            try:
                data, kept = compare_into(
                    store,
                    replace(request, choice=choice),
                    name=f"{name}.{place}",
                    replace_it=replace_it,
                    progress=_Named(progress, str(place)),
                )
            except InputError as error:
                if len(places) == 1:
                    raise
                runs.append(PlaceRun(place, problem=str(error)))
                continue
            # Not the data: of a thousand places they would fill the memory.
            ops = tuple(origin.op for origin in data.origins)
            runs.append(PlaceRun(place, data.run, ops, kept))
    origins = Counter(op for run in runs for op in run.origins)
    return ManyRuns(name, tuple(runs), tuple(origins.most_common()))


class _SharedWorkers:
    """One cluster for all comparisons: starting it costs seconds."""

    def __init__(self, workers: Workers) -> None:
        self._executor: BatchExecutor | None = None
        if workers.cluster is not None:
            from divergraph.jobs.dask_cluster import DaskExecutor

            self._executor = DaskExecutor(workers.cluster)
            workers = replace(workers, executor=self._executor)
        self.workers = workers

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()


class _Named:
    """Progress with the place before each stage."""

    def __init__(self, progress: Progress, place: str) -> None:
        self._progress = progress
        self._place = place

    def stage(self, text: str, total: int | None = None) -> None:
        self._progress.stage(f"{self._place}: {text}", total)

    def step(self, amount: int = 1, note: str = "") -> None:
        self._progress.step(amount, note)


def find_places(
    request: CompareRequest, ranks: Chosen | None, steps: Chosen | None
) -> Iterator[RankStep]:
    """The chosen ranks and steps that there are, of the device's dump if it has such
    levels, else of the golden one; without a choice of one level that level stays open.

    Raises:
        InputError: neither dump has such a level, or one of the numbers is not there.
    """
    dumps = [_dumps(request.device_dump, request), _dumps(request.golden_dump, request)]
    by_rank = [dump for dump in dumps if any(found.rank for found in dump)]
    by_step = [dump for dump in dumps if any(found.step for found in dump)]
    if ranks is None and request.choice.rank is not None:
        ranks = Chosen((request.choice.rank,))
    if steps is None and request.choice.step is not None:
        steps = Chosen((request.choice.step,))
    wanted_ranks = _wanted(ranks, by_rank, "rank")
    wanted_steps = _wanted(steps, by_step, "step")
    both = dumps[0] if dumps[0] in by_rank and dumps[0] in by_step else None
    there = {(found.rank, found.step) for found in both or ()}
    for rank in wanted_ranks:
        for step in wanted_steps:
            place = (str(rank), str(step))
            # Ranks may have dumped different steps; of "all" those that are not there are none.
            if not there or rank is None or step is None or _has(there, *place):
                yield RankStep(rank, step)


def _has(there: set[tuple[str, str]], rank: str, step: str) -> bool:
    return any((int(a), int(b)) == (int(rank), int(step)) for a, b in there if a and b)


def _dumps(path: Path, request: CompareRequest) -> list[FoundDump]:
    """The dumps below one of the folders, of the time that will be taken."""
    if not path.exists():
        raise InputError("no such folder", where=str(path))
    found = list_dumps(path)
    times = {dump.time for dump in found}
    time = request.choice.time if request.choice.time in times else max(times, default="")
    return [dump for dump in found if dump.time == time]


def _wanted(
    chosen: Chosen | None, dumps: Sequence[Sequence[FoundDump]], level: str
) -> list[int | None]:
    if chosen is None:
        return [None]
    if not dumps:
        raise InputError(
            f"--{level}s: neither dump has {level}s", hint="divergraph dumps lists what there is"
        )
    there = sorted({int(value) for found in dumps[0] if (value := getattr(found, level))})
    if chosen.numbers is None:
        return [*there]
    missing = [number for number in chosen.numbers if number not in there]
    if missing:
        raise InputError(
            f"no {level} {missing[0]} in this dump",
            hint=f"there are {', '.join(map(str, there[:12]))}"
            + (f" and {len(there) - 12} more" if len(there) > 12 else ""),
        )
    return [*chosen.numbers]
