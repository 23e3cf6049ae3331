"""How origins, paths and roles look as plain text."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping

import numpy as np

from divergraph.ask.error_paths.path_compression import fold_text, folded
from divergraph.ask.error_paths.path_steps import PathStep
from divergraph.ask.origin_answers import OriginAnswer, OriginsAnswer
from divergraph.ask.questions.roles import RoleRow, RoleTable
from divergraph.ask.reckonings import NOT_KEPT, near_the_limit, reckoning_lines, reckonings_of
from divergraph.ask.sentences import (
    FAULT_WORDS,
    error_text,
    limits_text,
    mismatch_sentence,
    names,
    numbers_text,
    share_text,
    step_note,
    thresholds_text,
)
from divergraph.ask.trace_answers import ErrorPath, Trace
from divergraph.cli.metric_text import metric_text
from divergraph.cli.options import say_more
from divergraph.cli.say import say
from divergraph.cli.text import show_no_verdict, show_steps
from divergraph.text.numbers import small_number
from divergraph.text.words import STATE_MARKS, counted, note_text
from graphstore.model import Guilt, Method, Note, Reckoning, Role, Run

_SHOWN = 5


def show_origins_answer(answer: OriginsAnswer, *, explain: bool = False) -> None:
    """The guilty ops with their sentences, the suspects, and by which limits.

    *explain*: how each suspicion was reckoned, and those of ops next to the limit.
    """
    reckoned = reckonings_of(answer.run) if explain else None
    run, analysis = answer.run, answer.run.analysis
    show_no_verdict(run)
    for mismatch in analysis.mismatches:
        say(mismatch_sentence(mismatch))
    if answer.origins:
        say("the error starts at")
    else:
        say(_none_found(answer))
    for one in answer.origins:
        _show_origin(one, "#", reckoned)
    if answer.suspects:
        say("suspect, not guilty")
    for one in answer.suspects:
        _show_origin(one, "?", reckoned)
    if explain:
        _show_near(answer.run)
    root_cause = run.method is Method.ROOT_CAUSE
    say(limits_text(analysis) if root_cause else thresholds_text(analysis))
    _say_how_to_split(run)


def _say_how_to_split(run: Run) -> None:
    """Name the command that runs the ops again, unless it is known why it cannot."""
    if run.method is Method.THRESHOLDS and not run.analysis.note:
        say(f"`divergraph analyse {shlex.quote(run.name)}` runs the ops again to find them")


def _none_found(answer: OriginsAnswer) -> str:
    if answer.run.method is Method.ROOT_CAUSE:
        return "no origin: no op makes more error than its precision explains"
    return "no origin: no op at which an error starts"


def _show_near(run: Run) -> None:
    reckonings = near_the_limit(run)
    if reckonings:
        say("over half the limit of suspects")
    for reckoning in reckonings:
        say(f"     {reckoning.op}  (output {reckoning.port})")
        for line in reckoning_lines(reckoning):
            say(f"       {line}")


def _show_origin(
    one: OriginAnswer, mark: str, reckoned: Mapping[tuple[str, int], Reckoning] | None
) -> None:
    origin = one.origin
    say(
        f"  {origin.rank:2} {mark} {origin.op}  ({origin.type}, output {origin.output})  "
        f"{metric_text(origin.metrics)}"
    )
    say(f"       {one.sentence}")
    if one.fault_of is not None:
        say(f"       {FAULT_WORDS[one.fault_of]}")
    if one.split is not None:
        say(f"       {numbers_text(one.split)}")
    if one.share is not None:
        say(f"       {share_text(one.share)}")
    if one.group_sentence:
        say(f"       {one.group_sentence}")
    elif origin.golden:
        originals = ", ".join(str(ref) if ref.port >= 0 else ref.op for ref in origin.golden)
        say(f"       golden {originals}")
    _say_notes(one.notes, " " * 7)
    if reckoned is not None:
        reckoning = reckoned.get((origin.op, origin.output))
        for line in [NOT_KEPT] if reckoning is None else reckoning_lines(reckoning):
            say(f"         {line}")
    if (dump := one.next_dump) is not None:
        say(f"       next best dump: {dump.op} (leaves {_left_out_text(dump.before, dump.after)})")


def _left_out_text(before: int, after: int) -> str:
    return counted(before, "op") if before == after else f"{before} or {after} ops"


def show_trace(trace: Trace, *, whole: bool, most: int | None) -> None:
    """The paths of an error, where they can be cut, what they reach and where it heals.

    With *whole* its ops, too, but no more than *most*.
    """
    say(
        f"{trace.op} reaches {counted(len(trace.steps) - 1, 'op')}; "
        f"{trace.over} of {trace.measured} compared ones are over a limit"
    )
    if whole:
        show_steps(trace.steps[:most])
        say_more(len(trace.steps) - len(trace.steps[:most]))
    if trace.paths:
        say()
        _show_path(trace.paths[0])
    for path in trace.paths[1:]:
        say(f"another end: {path.to}{_error_at_end(path)}; --to follows it")
    if trace.paths:
        say()
    for name in trace.healed[:_SHOWN]:
        say(f"healed at {name}")
    if len(trace.healed) > _SHOWN:
        say(f"healed at {len(trace.healed) - _SHOWN} more")
    say("ends at")
    for name in trace.outputs[:_SHOWN]:
        say(f"  {name}")
    if len(trace.outputs) > _SHOWN:
        say(f"  and {len(trace.outputs) - _SHOWN} more")
    if trace.notes:
        for step in trace.steps:
            _say_notes(trace.notes.get(step.row.id, ()), "")


def _error_at_end(path: ErrorPath) -> str:
    if path.error is None:
        return ""
    if math.isinf(path.error):
        return " (NaN or infinite values)"
    return f" (error {small_number(path.error)})"


def _show_path(path: ErrorPath) -> None:
    say(f"the path to {path.to}, on which most error is carried")
    for number, steps in folded(path.steps):
        if len(steps) == 1:
            say(_step_line(number, steps[0]))
        else:
            say(f"       ... {fold_text(steps)}")
    joined = np.flatnonzero(path.steps.joined).tolist()
    joins = tuple(path.steps.region.facts.rows.ids[path.steps.own[at]] for at in joined)
    if joins:
        say(f"other branches bring the same error at {names(joins, _SHOWN)}")
    if path.cuts:
        ops = " > ".join(cut.op for cut in path.cuts[:_SHOWN])
        more = f" > {len(path.cuts) - _SHOWN} more" if len(path.cuts) > _SHOWN else ""
        say(f"every path there passes {ops}{more}")
    middle = path.middle
    if middle is not None:
        say(
            f"to bisect, cut at {middle.op}: {counted(middle.above, 'op')} before it, "
            f"{middle.below} after"
        )


def _step_line(number: int, step: PathStep) -> str:
    row = step.row
    mark = " " if row.state is None else STATE_MARKS[row.state]
    gain = "" if row.gain is None else f"x{row.gain:.3g}"
    note = step_note(step, first=number == 0)
    line = f"{mark} {number:4}  {error_text(row.metrics):>9}  {gain:>8}  {row.id}"
    return f"{line}   ({note})" if note else line


def _say_notes(notes: Iterable[Note], margin: str) -> None:
    """What the team wrote of an op's originals."""
    for note in notes:
        say(f"{margin}note on {note.about}: {note_text(note)}")


def show_roles(table: RoleTable) -> None:
    """One line an op, then how many have which role."""
    show_no_verdict(table.run)
    types = max((len(row.type) for row in table.ops), default=0)
    for row in table.ops:
        say(_role_line(row, min(types, 20)))
        _say_notes(row.team_notes, " " * 9)
    if table.run.method is not Method.ROOT_CAUSE:
        say(f"no roles: the run was judged by thresholds only. {table.run.analysis.note}".strip())
        _say_how_to_split(table.run)
        return
    say(role_counts(table))
    say(limits_text(table.run.analysis))


def role_counts(table: RoleTable) -> str:
    """How many ops have which role, and how many are guilty or suspect."""
    counts = ", ".join(f"{table.counts.roles[role]} {role.value}" for role in Role)
    guilty, suspect = (table.counts.guilt[guilt] for guilt in (Guilt.GUILTY, Guilt.SUSPECT))
    return f"{counts}; {guilty} guilty, {suspect} suspect"


_GUILT_MARKS = {Guilt.NONE: " ", Guilt.SUSPECT: "?", Guilt.GUILTY: "#"}


def _role_line(row: RoleRow, width: int) -> str:
    split = row.split
    numbers = (
        ("susp", split.suspicion),
        ("intro", split.introduced),
        ("prop", split.propagated),
        ("amp", split.amplification),
    )
    texts = "  ".join(
        f"{name} {'-' if value is None else small_number(value):>8}" for name, value in numbers
    )
    mark = _GUILT_MARKS[split.guilt]
    return f"{mark} {row.topo:5}  {split.role.value:10}  {texts}  {row.type:{width}}  {row.op}"
