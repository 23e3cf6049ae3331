"""Which ops became guilty lately, over all models of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from threading import Lock
from time import monotonic
from typing import Annotated
from weakref import WeakKeyDictionary

from divergraph.ask.memory.baselines import WAIT_SECONDS
from divergraph.ask.model_runs import model_name, models_of
from divergraph.ask.question import Parameter, Question
from divergraph.ask.questions.compare_runs import ChangeKind, ChangesQuestion
from divergraph.outcomes import DIVERGED, FINE, Outcome
from divergraph.text.words import counted
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Run
from graphstore.recent import Recent

HOURS = 24.0
_CENTURIES = 24 * 365_000.0
_SECONDS = len("2026-01-01T00:00:00")
"""Times in UTC as far as all of them are written alike."""


@dataclass(frozen=True, slots=True)
class NewlyGuilty:
    """An op that is guilty in a run, and was not in the run of its model before."""

    type: str
    model: Annotated[str, "the name of its golden graph"]
    run: Annotated[str, Parameter("its name", is_run=True)]
    before: Annotated[
        str | None, Parameter("the run before it; null: the first of its model", is_run=True)
    ]
    op: Annotated[str, Parameter("the device op", op_of=".run")]
    original: Annotated[str | None, "the golden tensor it was held against"]
    sentence: Annotated[str | None, "its error, and what it was; null in a model's first run"]


@dataclass(frozen=True, slots=True)
class RegressionsAnswer:
    """Ops that became guilty, those of a type together, types that hit most models first."""

    hours: float
    runs: Annotated[int, "how many were made in these hours"]
    pending: Annotated[int, "runs not compared with the one before them yet: ask again"]
    ops: tuple[NewlyGuilty, ...]

    def by_type(self) -> list[tuple[str, list[str], list[NewlyGuilty]]]:
        """The types of ops, the models that each hits, and its ops."""
        groups = groupby(self.ops, key=lambda op: op.type)
        listed = [(name, list(ops)) for name, ops in groups]
        return [(name, list(dict.fromkeys(op.model for op in ops)), ops) for name, ops in listed]


def regressions_words(answer: RegressionsAnswer) -> str:
    """How many ops became guilty, in a few words."""
    if not answer.ops:
        return "no op is newly guilty"
    models = {op.model for op in answer.ops}
    return f"{counted(len(answer.ops), 'op')} newly guilty in {counted(len(models), 'model')}"


@dataclass(frozen=True, slots=True)
class RegressionsQuestion(Question[RegressionsAnswer]):
    """Which ops became guilty lately, and which models do they hit?

    Each run of the last HOURS is held against the run of its model before it; in the first run of a
    model every guilty op is new.

    Exit code 0: no op became guilty, 1: some op did.
    """

    name = "regressions"
    example = "divergraph regressions --hours 72"

    hours: Annotated[float, Parameter("How many hours back.", above=0)] = HOURS

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RegressionsAnswer:
        """Those ops. What takes too long is left for the next time and counted."""
        runs = sorted(store.runs(), key=lambda run: run.created)
        age = timedelta(hours=min(self.hours, _CENTURIES))
        since = (datetime.now(UTC) - age).isoformat()
        fresh = [run for run in runs if run.created[:_SECONDS] >= since[:_SECONDS]]
        if not fresh:
            return RegressionsAnswer(self.hours, 0, 0, ())
        names = {model_name(run.golden) for run in fresh}
        models = models_of(store, [run for run in runs if model_name(run.golden) in names])
        latest: dict[str, Run] = {}
        before: dict[str, Run | None] = {}
        for run in runs:
            if run.golden in models:
                before[run.name] = latest.get(models[run.golden])
                latest[models[run.golden]] = run
        until, pending, rows = monotonic() + WAIT_SECONDS, 0, list[NewlyGuilty]()
        for run in reversed(fresh):
            if monotonic() < until or (not rows and not pending):
                rows += _newly_guilty(store, run, before[run.name])
            else:
                pending += 1
        hit: dict[str, set[str]] = {}
        for row in rows:
            hit.setdefault(row.type, set()).add(row.model)
        rows.sort(key=lambda row: (-len(hit[row.type]), row.type, row.model, row.run, row.op))
        return RegressionsAnswer(self.hours, len(fresh), pending, tuple(rows))

    def outcome(self, answer: RegressionsAnswer) -> Outcome:
        """Diverged if an op became guilty."""
        return DIVERGED if answer.ops else FINE


QUESTION = RegressionsQuestion

_CACHE: WeakKeyDictionary[GraphStore, Recent[Sequence[NewlyGuilty]]] = WeakKeyDictionary()
_CACHE_LOCK = Lock()
_KEPT = 200
"""Runs whose answer is kept: the first page asks for them again and again."""


def _newly_guilty(store: GraphStore, run: Run, before: Run | None) -> Sequence[NewlyGuilty]:
    """Those of *run*; kept, because runs do not change."""
    with _CACHE_LOCK:
        recent = _CACHE.setdefault(store, Recent(_KEPT))
    place = (run.name, run.created, *(() if before is None else (before.name, before.created)))
    return recent.get("\0".join(place), lambda: _compared(store, run, before))


def _compared(store: GraphStore, run: Run, before: Run | None) -> Sequence[NewlyGuilty]:
    model = model_name(run.golden)
    if before is not None:
        try:
            changes = ChangesQuestion(before.name, run.name).ask(store).changes
        except InputError:  # one compares nothing that the other does
            before = None
        else:
            return tuple(
                NewlyGuilty(
                    *(change.type, model, run.name, before.name, change.op),
                    *(change.golden, change.sentence),
                )
                for change in changes
                if change.kind is ChangeKind.NEWLY_GUILTY and change.op is not None
            )
    return tuple(
        NewlyGuilty(
            *(origin.type, model, run.name, None, origin.op),
            *(str(origin.golden[0]) if origin.golden else None, None),
        )
        for origin in store.origins(run.name)
    )
