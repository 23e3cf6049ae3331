"""How what is said of several runs looks as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from divergraph.ask.questions.compare_runs import RunChanges
from divergraph.ask.questions.model import ModelAnswer, OpOfRun
from divergraph.ask.questions.recurring import Recurring, RecurringAnswer
from divergraph.ask.questions.regressions import RegressionsAnswer, regressions_words
from divergraph.ask.sentences import names, times
from divergraph.cli.options import say_rest
from divergraph.cli.say import say, say_note
from divergraph.text.numbers import small_number
from divergraph.text.words import counted


def show_changes(changes: RunChanges, limit: int) -> None:
    """The changes by kind, regressions first; *limit* of each."""
    say(
        f"{changes.old.name} -> {changes.new.name}: "
        f"{counted(changes.matched, 'original tensor')} in both runs",
        bold=True,
    )
    if changes.only_old or changes.only_new:
        say(
            f"  {changes.only_old} compared in {changes.old.name} only, "
            f"{changes.only_new} in {changes.new.name} only"
        )
    for kind, changes_of_kind in groupby(changes.changes, key=lambda change: change.kind):
        items = list(changes_of_kind)
        say(f"{kind.value}: {counted(len(items), 'op')}")
        for change in items[:limit]:
            say(f"  {change.sentence}")
            moved = change.old_op is not None and change.old_op != change.op
            if moved and change.op is not None:
                say(f"      called {change.old_op} in {changes.old.name}")
            if change.regrouped:
                say("      ops are fused or measured together differently than before")
        say_rest(len(items), limit)
    if not changes.changes:
        say("no op changed")
    for note in changes.notes:
        say_note(note)


def show_recurring(answer: RecurringAnswer, limit: int | None = None) -> None:
    """What is guilty in several runs, *limit* of each kind."""
    say(f"{answer.diverged} of {counted(answer.runs, 'run')} have an origin")
    _show("the same original op", answer.same_original, limit, by_original=True)
    _show("the same type and fusion pattern", answer.same_pattern, limit, by_original=False)


def show_model(answer: ModelAnswer, limit: int) -> None:
    """What changed from run to run, then at most *limit* originals by their state in each run."""
    baseline = "no baseline" if answer.baseline is None else f"the baseline is {answer.baseline}"
    older = f", {answer.older} older ones are not listed" if answer.older else ""
    say(f"{answer.model}: {counted(len(answer.runs), 'run')}{older}; {baseline}", bold=True)
    rows = [("run", "verdict", "baseline", "gate", "since the run before")]
    for run in answer.runs:
        changes = ", ".join(f"{count} {kind}" for kind, count in run.changes.items())
        verdict, standing = run.verdict.value.replace("_", " "), run.standing
        gate = "" if run.passed is None else "passed" if run.passed else "failed"
        words = "" if standing is None else standing.value
        rows.append((run.run, verdict, words, gate, changes))
    _say_columns(rows)
    cells = {(op.original, op.run): _state_words(op) for op in answer.ops}
    originals = answer.originals
    if not originals:
        say("no op was guilty or changed")
        return
    say()
    say("the error that each original makes itself", bold=True)
    runs = [run.run for run in answer.runs]
    listed = [
        (original, *(cells.get((original, run), "-") for run in runs))
        for original in originals[:limit]
    ]
    _say_columns([("original", *runs), *listed])
    say_rest(len(originals), limit)


def _state_words(op: OpOfRun) -> str:
    return op.state.value if op.error is None else f"{op.state.value} {small_number(op.error)}"


def _say_columns(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True))
        say(f"  {line.rstrip()}")


def show_regressions(answer: RegressionsAnswer, limit: int) -> None:
    """The ops by type, *limit* of each."""
    runs = counted(answer.runs, "run")
    say(f"{runs} in the last {answer.hours:g} hours: {regressions_words(answer)}", bold=True)
    for name, models, ops in answer.by_type():
        hit = f"{counted(len(models), 'model')} ({names(tuple(models))})"
        say(f"{name}: {counted(len(ops), 'op')}, {hit}")
        for op in ops[:limit]:
            new = f"{op.op} is guilty in the first run of its model"
            say(f"  {op.run}: {op.sentence or new}")
        say_rest(len(ops), limit)
    if answer.pending:
        say_note(f"{counted(answer.pending, 'run')} left for the next time: ask again")


def _show(
    title: str, entries: Sequence[Recurring], limit: int | None, *, by_original: bool
) -> None:
    say(f"{title}, in several runs", bold=True)
    if not entries:
        say("  none")
    for one in entries[:limit]:
        itself = one.pattern in ((), (one.type,))
        made_of = "" if itself else f" of {'+'.join(one.pattern)}"
        what = (
            f"{names(one.originals)}  ({one.type}{made_of})" if by_original else one.type + made_of
        )
        worst = "" if one.suspicion is None else f", up to {times(one.suspicion)} its floor"
        say(f"  {what}: {counted(len(one.runs), 'run')} ({names(one.runs, 4)}){worst}")
        if not by_original:
            say(f"      {names(one.ops, 4)}")
    say_rest(len(entries), len(entries) if limit is None else limit)
