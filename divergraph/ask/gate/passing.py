"""May a run pass? Not if an op got worse than it was in the baseline: another run, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from divergraph.ask.gate.baseline_file import AcceptedOutput, GateBaseline
from divergraph.ask.gate.judged_outputs import JudgedOutput, JudgedOutputs, judged_outputs
from divergraph.ask.memory.authors import author_name
from divergraph.ask.questions.compare_runs import TIMES, ChangeKind, OpChange, changes_between
from divergraph.outcomes import gives_no_answer
from divergraph.text.words import verdict_text
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Method, Run

_WORSE = (ChangeKind.NEWLY_GUILTY, ChangeKind.WORSE)


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """Whether run ``run`` may pass.

    ``worse`` are the ops for which it may not, ``others`` the changes that do not matter here.
    ``matched`` counts the golden tensors both compare, ``missing`` those of the baseline that the
    run did not compare. ``wrote`` is the file that was written, if one was.
    """

    run: Run
    baseline: str
    worse: tuple[OpChange, ...]
    others: tuple[OpChange, ...]
    matched: int
    missing: int
    accepted: tuple[AcceptedOutput, ...] = ()
    wrote: str = ""

    @property
    def passed(self) -> bool:
        """True if nothing got worse, and something can be said of the run."""
        return not self.worse and not gives_no_answer(self.run.verdict)


def gate(store: GraphStore, run: str, baseline: str, *, times: float = TIMES) -> GateAnswer:
    """*run* held against *baseline*: the name of a run, or the path of a file; empty: the run that
    is the baseline of its model.

    An op that was guilty before may stay so, but not make *times* its error.

    Raises:
        UnknownNameError: no such run.
        InputError: no such baseline, or it has no original tensor in common with the run.
    """
    if not baseline:
        return gate_by_run(store, run, times=times)
    return _gate(store, run, baseline, find_baseline(store, baseline), times)


def gate_by_run(
    store: GraphStore, run: str, baseline: str = "", *, times: float = TIMES
) -> GateAnswer:
    """The same where *baseline* can only be a run: no file is read.

    Raises:
        UnknownNameError: no such run.
        InputError: the model has no baseline, nothing can be said of it, or it has no original
            tensor in common with the run.
    """
    if not baseline:
        model = store.run(run).golden
        names = (entry.run for entry in store.baselines() if entry.model == model)
        baseline = next(names, "")
    if not baseline:
        raise InputError(
            f"the model of {run} has no baseline",
            hint="name one, or `divergraph baseline set RUN`",
        )
    return _gate(store, run, baseline, _decided(store.run(baseline)), times)


def _gate(
    store: GraphStore, run: str, baseline: str, stated: GateBaseline | Run, times: float
) -> GateAnswer:
    new = store.run(run)
    old = stated if isinstance(stated, GateBaseline) else _baseline(store, new, stated)
    by_split = new.method is old.method is Method.ROOT_CAUSE
    if old.method is Method.ROOT_CAUSE and not by_split:
        raise InputError(
            f"the baseline was judged by root cause, {run} by thresholds only",
            hint=f"divergraph analyse {run}",
        )
    before = JudgedOutputs(old.outputs)
    after = JudgedOutputs(judged_outputs(store, new, by_split=by_split))
    common = before.golden & after.golden
    if not common:
        raise InputError(
            f"{run} and its baseline have no original tensor in common",
            where=baseline,
            hint="both must have been compared with the same golden model",
        )
    suspect = max(old.suspect, new.analysis.suspect)
    changes = changes_between(before, after, times, suspect)
    worse = worse_changes(changes, times)
    return GateAnswer(
        new,
        baseline,
        worse,
        tuple(one for one in changes if one not in worse),
        len(common),
        len(before.golden - after.golden),
        old.accepted,
    )


def find_baseline(store: GraphStore, baseline: str) -> GateBaseline | Run:
    """The file of this name, else the run.

    Raises:
        InputError: there is neither, the file is no baseline, or nothing can be said of the run.
    """
    if Path(baseline).is_file():
        return GateBaseline.read(Path(baseline))
    try:
        return _decided(store.run(baseline))
    except UnknownNameError:
        return GateBaseline.read(Path(baseline))


def update(store: GraphStore, run: str, path: Path) -> GateAnswer:
    """Let *run* be the baseline from now on: what was accepted before is part of it.

    Raises:
        UnknownNameError: no such run.
        InputError: nothing can be said of the run, or the file cannot be written.
    """
    new = _decided(store.run(run))
    gate_baseline = GateBaseline.of(new, _all(store, new))
    gate_baseline.write(path)
    return GateAnswer(
        *(new, str(path), (), (), len({one.golden for one in gate_baseline.outputs}), 0),
        wrote=str(path),
    )


def accept(
    store: GraphStore, run: str, path: Path, ops: Sequence[str], reason: str, *, times: float
) -> GateAnswer:
    """Take what *ops* (golden or device ops) do in *run* for right, and hold *run* against that.

    Raises:
        UnknownNameError: no such run, or it compared no output of an op.
        InputError: nothing can be said of the run, no such file, or it cannot be written.
    """
    new, old = _decided(store.run(run)), GateBaseline.read(path)
    all_outputs = _all(store, new)
    named = {name: [one for one in all_outputs if name in (one.op, one.golden.op)] for name in ops}
    for name, outputs in named.items():
        if not outputs:
            raise UnknownNameError("op whose output was compared", name)
    at, by = datetime.now(UTC).isoformat(timespec="seconds"), author_name()
    new_outputs: Mapping[str, JudgedOutput] = {
        str(one.golden): one for named_outputs in named.values() for one in named_outputs
    }
    entries = [AcceptedOutput(golden, reason, by, at) for golden in new_outputs]
    old.accepting(new_outputs.values(), entries).write(path)
    answer = gate(store, run, str(path), times=times)
    return replace(answer, wrote=str(path))


def _decided(run: Run) -> Run:
    """*run*, unless nothing can be said of it: held against that, anything would pass."""
    if gives_no_answer(run.verdict):
        raise InputError(
            f"it can be no baseline: {run.name} is {verdict_text(run)}",
            hint=f"divergraph advise {run.name}",
        )
    return run


def _all(store: GraphStore, run: Run) -> list[JudgedOutput]:
    return judged_outputs(store, run, by_split=run.method is Method.ROOT_CAUSE)


def _baseline(store: GraphStore, run: Run, old: Run) -> GateBaseline:
    """The run *old*, taken by what both runs can be judged by."""
    by_split = run.method is old.method is Method.ROOT_CAUSE
    gate_baseline = GateBaseline.of(old, judged_outputs(store, old, by_split=by_split))
    return gate_baseline if by_split else replace(gate_baseline, method=Method.THRESHOLDS)


def worse_changes(changes: Sequence[OpChange], times: float = TIMES) -> tuple[OpChange, ...]:
    """Those for which a run may not pass."""
    return tuple(change for change in changes if _is_worse(change, times))


def _is_worse(change: OpChange, times: float) -> bool:
    if change.kind is ChangeKind.STILL_GUILTY:
        return change.times is not None and change.times >= times
    return change.kind in _WORSE
