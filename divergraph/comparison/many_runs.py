"""One comparison for each of many ranks and steps, and what they say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field, replace

from divergraph.comparison import CompareRequest
from divergraph.comparison.chosen_places import Chosen, dumps_of, places_in
from divergraph.comparison.graphs_once import GraphsOnce
from divergraph.comparison.keep_run import compare_into, fresh_name, graph_is_there, run_is_there
from divergraph.comparison.part_of_places import form_of_places
from divergraph.comparison.places import (
    ComparePlace,
    PackedRun,
    RankStep,
    kept_journal,
    places_journal,
)
from divergraph.jobs.executors import BatchExecutor, SerialExecutor, chosen_executor
from divergraph.jobs.job import Job, JobProgress
from divergraph.jobs.journal import Journal
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.jobs.queue_executor import QueueExecutor, own_queue
from divergraph.metrics.pairs.many_pairs import Workers
from divergraph.outcomes import WORST_FIRST
from graphstore.contract import GraphStore, RunData
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError, NameTakenError
from graphstore.model import Counts, Run, Verdict
from importers.dumps.contract import FoundDump

_TOGETHER = 512
"""Places that are kept together: until they are, their runs are in the journal."""


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

    @property
    def name(self) -> str:
        """The name the run was kept under; empty if it was not."""
        return self.run.name if self.run is not None and self.kept else ""


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
        verdicts = {place_run.run.verdict for place_run in self.runs if place_run.run is not None}
        return next(
            (verdict for verdict in WORST_FIRST if verdict in verdicts), Verdict.NOT_COMPARED
        )

    @property
    def first(self) -> RankStep | None:
        """Where something diverged first: the lowest step, then the lowest rank."""
        runs = [
            (place_run.place, place_run.run) for place_run in self.runs if place_run.run is not None
        ]
        bad = [place for place, run in runs if run.verdict is Verdict.DIVERGED]
        return min(bad, key=lambda place: (place.step or 0, place.rank or 0), default=None)

    @property
    def counts(self) -> Counts:
        """The counts of all places added up."""
        counts_of_runs = [astuple(run.run.counts) for run in self.runs if run.run is not None]
        return (
            Counts(*map(sum, zip(*counts_of_runs, strict=True)))
            if counts_of_runs
            else Counts(0, 0, 0, 0, 0)
        )


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
    dumps = dumps_of(request)
    places = list(places_in(request, ranks, steps, dumps))
    if len(places) == 1:
        return _only_one(store, request, places[0], name, replace_it=replace_it, progress=progress)
    store.check_writable()  # a comparison takes long: better said now
    work = _Places(store, request, places, [*dumps[0], *dumps[1]], replace_it, progress)
    return work.run(name)


def _only_one(
    store: GraphStore,
    request: CompareRequest,
    place: RankStep,
    name: str | None,
    *,
    replace_it: bool,
    progress: Progress,
) -> ManyRuns:
    """The run of a single place, whose tensors are worth all workers."""
    name = name or fresh_name(store)
    choice = replace(request.choice, rank=place.rank, step=place.step)
    data, is_stored = compare_into(
        store,
        replace(request, choice=choice),
        name=f"{name}.{place}",
        replace_it=replace_it,
        progress=progress,
    )
    return _many_runs(name, [_place_run(place, data, is_stored=is_stored)])


@dataclass
class _Places:
    """Compares many places and keeps their runs as they come."""

    store: GraphStore
    request: CompareRequest
    places: Sequence[RankStep]
    dumps: Sequence[FoundDump]
    replace_it: bool
    progress: Progress
    graphs: GraphsOnce = field(default_factory=GraphsOnce)
    found: dict[RankStep, PlaceRun] = field(default_factory=dict)

    def run(self, name: str | None) -> ManyRuns:
        """All places; those a killed comparison has kept are not compared again."""
        there = {run.name: run for run in self.store.runs()}
        names = {info.name for info in self.store.graphs()}
        name = self._kept_before(there, name) or name or fresh_name(self.store)
        for place in self.places:
            if place not in self.found and (
                refusal := self._refusal(f"{name}.{place}", there, names)
            ):
                self.found[place] = PlaceRun(place, problem=refusal)
        todo = [place for place in self.places if place not in self.found]
        journal = self._kept()
        with ExitStack() as stack:
            if journal is not None:
                stack.callback(journal.close)
            executor, request = self._workers(len(todo), stack)
            work, watch = ComparePlace(request, name, self.progress, self.graphs), None
            if not isinstance(executor, SerialExecutor):
                work, watch = ComparePlace(request, name), self._count
                self.progress.stage("comparing ranks and steps", len(todo))
            for first in range(0, len(todo), _TOGETHER):
                some = todo[first : first + _TOGETHER]
                if journal is not None:
                    journal.starting(map(self._numbers().__getitem__, some))
                job = Job(
                    some,
                    work,
                    [0] * len(some),
                    executor=executor,
                    journal=self._journal(some),
                    watch=watch,
                    alone=True,
                )
                self._keep(job, some, name)
                if journal is not None:
                    journal.add(self._stamps(some))
                job.forget()
        if journal is not None:
            journal.remove()
        return _many_runs(name, [self.found[place] for place in self.places])

    def _keep(self, job: Job[RankStep, PackedRun], places: Sequence[RankStep], name: str) -> None:
        """Do the job and keep the runs of its *places*."""
        saved = self.store.save_runs(self._runs(job, places, name), replace=self.replace_it)
        for place in places:
            if f"{name}.{place}" in saved:
                message = str(NameTakenError.by("run", f"{name}.{place}", or_replace=True))
                self.found[place] = PlaceRun(place, problem=message)

    def _stamps(self, places: Sequence[RankStep]) -> dict[int, str]:
        """The time and name of the kept runs of *places*, by the numbers of these among all."""
        numbers = self._numbers()
        runs = {numbers[place]: self.found[place] for place in places}
        return {
            number: f"{place_run.run.created} {place_run.run.name}"
            for number, place_run in runs.items()
            if place_run.kept and place_run.run is not None
        }

    def _numbers(self) -> dict[RankStep, int]:
        return {place: number for number, place in enumerate(self.places)}

    def _kept_before(self, there: Mapping[str, Run], name: str | None) -> str | None:
        """Find what a killed comparison has kept; its name, if none is given."""
        last_journal, journal = self._kept(), self._journal(self.places)
        stamps = {} if last_journal is None else last_journal.done(len(self.places))
        for number, stamp in stamps.items():
            place, run = self.places[number], there.get(stamp.partition(" ")[2])
            if run is None or stamp != f"{run.created} {run.name}":
                continue
            before = run.name.removesuffix(f".{place}")
            name = name or before
            if name == before:
                origins = tuple(origin.op for origin in self.store.origins(run.name))
                self.found[place] = PlaceRun(place, run, origins, kept=True)
        packed_runs = {} if journal is None else journal.done(len(self.places))
        for number, packed in packed_runs.items():
            place, data = self.places[number], packed.unpacked(self.graphs)
            before = data.run.name.removesuffix(f".{place}")
            name = name or before
            if name == before and there.get(data.run.name) == data.run:
                self.found[place] = _place_run(place, data, is_stored=True)
        return name

    def _refusal(self, name: str, there: Mapping[str, Run], names: Collection[str]) -> str:
        """Why there can be no run of this name; empty if there can."""
        try:
            check_new_name(name)
            if name in names:
                raise graph_is_there(name)
            if name in there and not self.replace_it:
                raise run_is_there(name)
        except InputError as error:
            return str(error)
        return ""

    def _journal(self, places: Sequence[RankStep]) -> Journal[PackedRun] | None:
        if not self.request.workers.resume:
            return None
        return places_journal(self.request, places, self.dumps)

    def _kept(self) -> Journal[str] | None:
        if not self.request.workers.resume:
            return None
        return kept_journal(self.request, self.places, self.dumps)

    def _workers(self, count: int, stack: ExitStack) -> tuple[BatchExecutor, CompareRequest]:
        """Who compares so many places, and the request as they see it: for a server child jobs.

        One place after the other, each by all workers, where those are a cluster, which sees
        the dumps but not the models, or more than there are places.
        """
        request, workers = self.request, self.request.workers
        queue = own_queue() if workers.cluster is None and count > 1 else None
        if queue is not None:
            jobs = QueueExecutor(queue, form_of_places(request, self.dumps))
            stack.callback(jobs.close)
            return jobs, request
        if workers.cluster is not None:
            from divergraph.jobs.dask_cluster import DaskExecutor

            shared = DaskExecutor(workers.cluster)  # starting it costs seconds
            stack.callback(shared.close)
            return SerialExecutor(), replace(request, workers=replace(workers, executor=shared))
        files = sum(dump.files for dump in self.dumps)
        executor = chosen_executor(max(files, count), 0, workers.jobs)
        stack.callback(executor.close)
        if not 1 < executor.workers <= count:
            return SerialExecutor(), request
        # the journal of places is enough, and a worker must not start others
        return executor, replace(request, workers=Workers(jobs=1, resume=False))

    def _count(self, state: JobProgress, done: int) -> None:
        self.progress.step(done)

    def _runs(
        self, job: Job[RankStep, PackedRun], todo: Sequence[RankStep], name: str
    ) -> Iterator[RunData]:
        """The runs to be kept, as they get done."""
        for number, packed in job.results():
            place = todo[number]
            if packed.problem:
                self.found[place] = PlaceRun(place, problem=packed.problem)
                continue
            data = packed.unpacked(self.graphs)
            if data.run.name != f"{name}.{place}":
                data = replace(data, run=replace(data.run, name=f"{name}.{place}"))
            is_stored = data.run.verdict is not Verdict.NOT_COMPARED
            self.found[place] = _place_run(place, data, is_stored=is_stored)
            if is_stored:
                yield data


def _place_run(place: RankStep, data: RunData, *, is_stored: bool) -> PlaceRun:
    # Not the data: of a thousand places they would fill the memory.
    return PlaceRun(place, data.run, tuple(origin.op for origin in data.origins), is_stored)


def _many_runs(name: str, runs: Sequence[PlaceRun]) -> ManyRuns:
    origins = Counter(op for run in runs for op in run.origins)
    return ManyRuns(name, tuple(runs), tuple(origins.most_common()))
