"""How a command ends that kept a run."""

from __future__ import annotations

from divergraph.ask.questions.verdict import RunVerdict
from divergraph.cli.options import print_or_show
from divergraph.cli.say import say_note, tell_kept
from divergraph.cli.text import show_run
from divergraph.outcomes import outcome_of_verdict
from graphstore.contract import RunData


def show_kept_run(data: RunData, *, as_json: bool) -> int:
    """Print the run as text or JSON, its warnings as notes; the exit code of its verdict."""
    tell_kept(data.run.name)
    for warning in data.run.warnings:
        say_note(warning)
    print_or_show(RunVerdict.of(data), lambda _: show_run(data), as_json=as_json)
    return outcome_of_verdict(data.run.verdict).exit_code
