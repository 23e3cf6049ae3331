"""The baseline run of each model, and how the other runs of the model stand against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import TypeAlias

from divergraph.ask.questions.compare_runs import ChangeKind, ChangesQuestion, RunChanges
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Baseline, Run, RunStanding, Standing

_WORSE = frozenset((ChangeKind.NEWLY_GUILTY, ChangeKind.NEWLY_SUSPECT, ChangeKind.WORSE))
WAIT_SECONDS = 5.0
"""How long a list reckons at most; a run of 164 ops takes 20 ms."""
_BETTER = frozenset((ChangeKind.BETTER, ChangeKind.FIXED))


def set_baseline(store: GraphStore, run: str, author: str) -> Baseline:
    """Let other runs of the model of *run* be held against it from now on.

    Raises:
        UnknownNameError: no such run.
    """
    record = store.run(run)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    baseline = Baseline(record.golden, run, record.created, author, now)
    store.keep_baseline(baseline)
    return baseline


def drop_baseline(store: GraphStore, run: str) -> Baseline:
    """Let the model of *run* have no baseline; which it was.

    Raises:
        UnknownNameError: no such run, or its model has none.
    """
    model = store.run(run).golden
    baseline = next((entry for entry in store.baselines() if entry.model == model), None)
    if baseline is None:
        raise UnknownNameError("baseline of the model", model)
    store.drop_baseline(model)
    return baseline


def baseline_of(store: GraphStore, run: str) -> Baseline | None:
    """The baseline that *run* is, if it is one."""
    return next((baseline for baseline in store.baselines() if baseline.run == run), None)


def delete_entry(store: GraphStore, name: str) -> Baseline | None:
    """Delete a run or graph; the baseline that is gone with it, if it was one.

    Raises:
        UnknownNameError: there is no such run or graph.
    """
    gone = baseline_of(store, name)
    store.delete(name)
    return gone


def standings(store: GraphStore, runs: Iterable[Run]) -> Mapping[str, RunStanding]:
    """How those of *runs* stand whose model has a baseline that is there, by name.

    What was reckoned once is kept in the store: runs do not change. Of others so many are reckoned
    as one waits for, one at least, the newest first.
    """
    listed = list(runs)
    created = {run.name: run.created for run in listed}
    baselines = {
        baseline.model: baseline
        for baseline in store.baselines()
        if created.get(baseline.run) == baseline.made
    }
    if not baselines:
        return {}
    stored = {_place(standing): standing for standing in store.standings()}
    standing_of: dict[str, RunStanding] = {}
    fresh: set[str] = set()
    until = monotonic() + WAIT_SECONDS
    for run in sorted(listed, key=lambda run: run.created, reverse=True):
        baseline = baselines.get(run.golden)
        if baseline is None:
            continue
        place = (run.name, run.created, baseline.run, baseline.made)
        standing = stored.get(place)
        if standing is None and (not fresh or monotonic() < until):
            standing = _reckoned(store, place)
            fresh.add(run.name)
        standing_of[run.name] = standing or RunStanding(*place, Standing.PENDING)
    for model in {run.golden for run in listed if run.name in fresh}:
        of_model = (standing_of[run.name] for run in listed if run.golden == model)
        store.keep_standings(
            model, [standing for standing in of_model if standing.standing is not Standing.PENDING]
        )
    return {run.name: standing_of[run.name] for run in listed if run.name in standing_of}


_Place: TypeAlias = tuple[str, str, str, str]


def _place(standing: RunStanding) -> _Place:
    return standing.run, standing.made, standing.baseline, standing.baseline_made


def _reckoned(store: GraphStore, place: _Place) -> RunStanding:
    run, _, baseline, _ = place
    if run == baseline:
        return RunStanding(*place, Standing.BASELINE)
    try:
        changes = ChangesQuestion(baseline, run).ask(store)
    except InputError:  # one compares nothing that the other does
        return RunStanding(*place, Standing.UNLIKE)
    return RunStanding(*place, _standing(changes), _counts(changes), _decides(changes))


def _standing(changes: RunChanges) -> Standing:
    kinds = {change.kind for change in changes.changes}
    if kinds & _WORSE:
        return Standing.WORSE
    return Standing.BETTER if kinds & _BETTER else Standing.SAME


def _counts(changes: RunChanges) -> Mapping[str, int]:
    counts = Counter(change.kind for change in changes.changes)
    return {kind.value: counts[kind] for kind in ChangeKind if kind in counts}


def _decides(changes: RunChanges) -> str:
    deciding = (change for change in changes.changes if change.kind in _WORSE | _BETTER)
    return next((change.sentence for change in deciding), "")


def standing_text(standing: RunStanding) -> str:
    """How a run stands, in a few words: ``worse than good: 2 newly guilty, 1 fixed``."""
    if standing.standing is Standing.BASELINE:
        return "the baseline"
    if standing.standing is Standing.PENDING:
        return f"not held against {standing.baseline} yet: ask again"
    if standing.standing is Standing.UNLIKE:
        return f"not to be held against {standing.baseline}"
    than = "as" if standing.standing is Standing.SAME else "than"
    counts = ", ".join(f"{count} {kind}" for kind, count in standing.changes.items())
    words = f"{standing.standing.value} {than} {standing.baseline}"
    return f"{words}: {counts}" if counts else words
