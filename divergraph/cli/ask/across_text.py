"""How what is said of several runs looks as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from divergraph.ask.questions.compare_runs import RunChanges
from divergraph.ask.questions.recurring import Recurring, RecurringAnswer
from divergraph.ask.sentences import names, times
from divergraph.cli.options import say_rest
from divergraph.cli.say import say, say_note
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
