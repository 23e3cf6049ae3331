"""Batches done by child jobs in the queue of a server, which this process is a job of."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from divergraph.jobs.background.job_files import REQUEST, read_json
from divergraph.jobs.background.job_table import JobTable, QueuedJob, QueuedState
from divergraph.jobs.background.own_process import own_folder
from divergraph.jobs.journal import Journal
from divergraph.jobs.work import Batch, Stopped, Work

T = TypeVar("T")
R = TypeVar("R")

_LOOK_SECONDS = 0.25
_PARTS_EACH = 2
"""Children for each that runs at once, so that none is left with all of the last work."""
_MOST_ITEMS = 32
"""Of one child: what a killed one has to begin again is little."""
_OPEN = (QueuedState.QUEUED, QueuedState.RUNNING)
_DIED = "the process that compared it died: out of memory, or it was killed"
_CHANGED = "its files changed while it was compared"
_Numbers: TypeAlias = Mapping[tuple[object, ...], int]
"""The place of each item among all, by how it is told."""


@dataclass(frozen=True, slots=True)
class ItemForm:
    """How items travel: as the JSON list that *told* makes of one, their results in the journal
    of a child's items in its folder."""

    told: Callable[[Any], Sequence[object]]
    journal: Callable[[Sequence[Any], Path], Journal[Any]]


@dataclass(frozen=True, slots=True)
class OwnQueue:
    """The queue of which this process does the job ``name``, ``at_once`` of them at once."""

    path: Path
    folder: Path
    at_once: int

    @property
    def name(self) -> str:
        """The id of the job."""
        return self.folder.name


def own_queue() -> OwnQueue | None:
    """The queue in which this process may put jobs for parts of its work; None if it does no job
    of a server, or is such a part itself."""
    folder = own_folder()
    request = {} if folder is None else read_json(folder / REQUEST)
    if folder is None or "queue" not in request:
        return None
    return OwnQueue(Path(request["queue"]), folder, max(1, int(request["at_once"])))


def own_part() -> list[list[Any]] | None:
    """What this process is to do for the job it is a part of, as told; None if it is no part."""
    folder = own_folder()
    return None if folder is None else read_json(folder / REQUEST).get("part")


@dataclass(slots=True)
class _Child:
    """A child job; ``missing`` has the numbers of its items that have no result, by their place
    in its part."""

    id: str
    size: int
    missing: dict[int, int]
    journal: Journal[Any]

    def grown(self) -> Iterator[tuple[Batch, list[Any]]]:
        """What it has done since the last look."""
        for place, result in self.journal.grown(self.size).items():
            number = self.missing.pop(place, None)
            if number is not None:
                yield (number,), [result]


class QueueExecutor:
    """Puts batches into the queue and hands on what comes of them.

    A process that takes up a killed one goes on with the children that this one had."""

    def __init__(self, queue: OwnQueue, form: ItemForm) -> None:
        self._table, self._queue, self._form = JobTable(queue.path), queue, form
        self.workers = queue.at_once

    def results(
        self, work: Work[T, R], items: Sequence[T], batches: Iterable[Batch], stopped: Stopped
    ) -> Generator[tuple[Batch, list[R]], None, None]:
        """Each item with its result, as the children tell it."""
        todo = dict.fromkeys(number for batch in batches for number in batch)
        numbers = {tuple(self._form.told(item)): number for number, item in enumerate(items)}
        children: list[_Child] = []
        for child, is_open in self._asked_before(items, numbers, todo):
            if not is_open:  # what it has not done is asked for again
                for batch, results in child.grown():
                    todo.pop(batch[0])
                    yield batch, results
                child.journal.remove()
                continue
            for number in child.missing.values():
                todo.pop(number)
            children.append(child)
        children += self._asked(items, numbers, list(todo))
        try:
            while children and not stopped():
                for child in list(children):
                    job = self._table.job(child.id)  # before the last look
                    yield from child.grown()
                    if job.state not in _OPEN:
                        for number in child.missing.values():
                            yield (number,), [work.lost(items[number], _why(job))]
                        child.journal.remove()
                        children.remove(child)
                time.sleep(_LOOK_SECONDS if children else 0)
        finally:
            for child in children:
                self._table.cancel(child.id)

    def close(self) -> None:
        """Let go of the queue."""
        self._table.close()

    def _asked_before(
        self, items: Sequence[Any], numbers: _Numbers, todo: dict[int, None]
    ) -> Iterator[tuple[_Child, bool]]:
        """Children of a process that was killed that do some of this, and whether they are not
        over."""
        for job in self._table.children(self._queue.name):
            child = self._child(job, items, numbers, todo)
            if child.missing:
                yield child, job.state in _OPEN

    def _asked(
        self, items: Sequence[Any], numbers: _Numbers, todo: Sequence[int]
    ) -> Iterator[_Child]:
        """New children for the items of these numbers."""
        size = max(1, min(_MOST_ITEMS, -(-len(todo) // (self.workers * _PARTS_EACH))))
        parts = [todo[first : first + size] for first in range(0, len(todo), size)]
        parts_of_items = [[self._form.told(items[number]) for number in part] for part in parts]
        own = self._table.job(self._queue.name)
        for job, part in zip(self._table.add_children(own, parts_of_items), parts, strict=True):
            yield self._child(job, items, numbers, part)

    def _child(
        self, job: QueuedJob, items: Sequence[Any], numbers: _Numbers, todo: Collection[int]
    ) -> _Child:
        """*job*, which is to do those *items* of its part whose numbers are in *todo*."""
        own = [numbers[key] for key in job.part if key in numbers]
        missing = {place: number for place, number in enumerate(own) if number in todo}
        folder = self._queue.folder.parent / job.id
        journal = self._form.journal([items[number] for number in own], folder)
        return _Child(job.id, len(own), missing, journal)


def _why(job: QueuedJob) -> str:
    if job.error:
        return job.error
    return _DIED if job.state is QueuedState.LOST else _CHANGED
