"""``divergraph fusion``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from divergraph.cli.options import common, print_answer, say_rest, shown_option
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say, say_note
from divergraph.outcomes import DIVERGED, FINE
from graphstore.errors import InputError

if TYPE_CHECKING:
    from divergraph.ask.fusion_passes import PassInEffect
    from divergraph.ask.questions.fusion import FusionAnswer
    from divergraph.ask.questions.fusion_trial import FusionTrial

_path = click.Path(path_type=Path, readable=False)  # the readers say it in one line


@click.command("fusion")
@click.argument("run", type=RUN)
@click.argument("ops", nargs=-1, metavar="[OP]...")
@click.option("--off", multiple=True, metavar="PASS", help="Switch this pass off, too; or ALL.")
@click.option("--write", type=_path, metavar="FILE", help="Write the fusion switch file.")
@click.option("--result", type=_path, metavar="FILE", help="The compiler's fusion_result.json.")
@click.option("--against", metavar="RUN", help="A run made with the switch file: was it the pass?")
@shown_option("ops and passes", 20)
@common
def fusion_command(
    run: str,
    ops: tuple[str, ...],
    off: tuple[str, ...],
    write: Path | None,
    result: Path | None,
    against: str | None,
    limit: int,
    store: str | None,
    as_json: bool,
) -> int:
    """Name the fusion passes that made ops, and find out whether one makes the error.

    Without OP those of the ops at which the error of RUN starts. --write makes the file that
    switches their passes off; train once more with it, compare, and give that run to --against.

    Exit code 0; with --against 1 if a pass makes an error.
    """
    from divergraph.ask.questions.fusion import FusionQuestion
    from divergraph.ask.questions.fusion_trial import FusionTrialQuestion

    if against is not None:
        if ops or off or write or result:
            raise click.UsageError("--against takes no other option and no OP")
        trial = FusionTrialQuestion(run, against)
        show_trial = partial(_show_trial, most=limit)
        tried = print_answer(trial, store, show_trial, as_json=as_json)
        return (DIVERGED if tried.is_the_pass else FINE).exit_code

    def show(answer: FusionAnswer) -> None:
        _show(answer, _read(result) if result is not None else answer.in_effect, limit)

    fusion_answer = print_answer(FusionQuestion(run, ops), store, show, as_json=as_json)
    if write is not None:
        _write(fusion_answer, off, write)
    return FINE.exit_code


def _read(path: Path) -> tuple[PassInEffect, ...]:
    from divergraph.ask.fusion_passes import listed_passes

    return listed_passes(path)


def _write(answer: FusionAnswer, off: tuple[str, ...], path: Path) -> None:
    from divergraph.ask.fusion_passes import chosen_passes, switch_text
    from divergraph.files.whole_files import whole_file

    passes = (*answer.passes, *chosen_passes(off, answer.passes))
    if not passes:
        raise InputError(
            "no pass is named by these ops, so there is nothing to switch off",
            hint="name passes with --off, or all: --off ALL",
        )
    with whole_file(path, "fusion switch file") as place:
        place.write_text(switch_text(passes, indent=2), encoding="utf-8")
    say_note(
        f"{path} switches off {', '.join(dict.fromkeys(named_pass.name for named_pass in passes))}"
    )


def _show(answer: FusionAnswer, in_effect: Iterable[PassInEffect], limit: int) -> None:
    if not answer.ops:
        say("no op to ask for: no error starts anywhere, and no op names a pass")
    for op in answer.ops[:limit]:
        say(f"{'#' if op.guilty else ' '} {op.op}  ({op.type})")
        if len(op.originals) > 1:
            say(f"    made of {', '.join(op.originals)}")
        named = ", ".join(
            f"{named_pass.name} ({named_pass.section.value})" for named_pass in op.passes
        )
        none = "the graph names no pass" if len(op.originals) > 1 else "not fused"
        say(f"    {named or none}")
    say_rest(len(answer.ops), limit)
    passes = list(in_effect)
    if passes:
        say()
        say("passes in effect, of matches")
    for counts in passes[:limit]:
        say(f"  {counts.section.value:12} {counts.name}: {counts.effected} of {counts.matched}")
    say_rest(len(passes), limit)


def _show_trial(trial: FusionTrial, most: int) -> None:
    say(trial.sentence, bold=True)
    for op in trial.ops[:most]:
        say(f"  {op.verdict.value.replace('_', ' ')}: {op.sentence}")
    say_rest(len(trial.ops), most)
    if not trial.ops:
        say(f"  no error starts in {trial.on}")
