"""``divergraph note`` and ``baseline``: what a team keeps beside its runs."""

from __future__ import annotations

import click

from divergraph.cli.options import (
    common,
    first_rows,
    limit_option,
    opened_to_read,
    output_option,
    print_answer,
    print_done,
    print_or_show,
)
from divergraph.cli.run_name import RUN
from divergraph.cli.say import say, say_beside
from divergraph.text.words import note_text
from graphstore.model import Baseline, Note

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group("note", context_settings=_HELP)
def note_command() -> None:
    """Write down what is known of an op, once for all runs of its model.

    A note belongs to a golden op, so a device that was compiled anew has it, too. It carries
    your name ($DIVERGRAPH_AUTHOR, else that of your account) and the time.
    """


@note_command.command("list")
@click.argument("run", type=RUN, required=False)
@click.argument("op", required=False)
@limit_option
@common
def list_notes_command(
    run: str | None, op: str | None, limit: int | None, store: str | None, as_json: bool
) -> None:
    """List all notes, those on the model of RUN, or on its OP."""
    from divergraph.ask.questions.notes import NotesAnswer, NotesQuestion

    def show(answer: NotesAnswer) -> None:
        if not answer.notes:
            say_beside("there are no notes")
        for note in answer.notes:
            say(f"{note.id}  {note.model}  {note.about}  {note_text(note)}")

    question = NotesQuestion(run, op)
    print_answer(question, store, show, as_json=as_json, cut=first_rows("notes", limit))


@note_command.command("add")
@click.argument("run", type=RUN)
@click.argument("op")
@click.argument("text", default="")
@output_option("On this output alone.")
@click.option("--bookmark", is_flag=True, help="To find it again; TEXT may be left away.")
@common
def add_note_command(
    run: str,
    op: str,
    text: str,
    output: int | None,
    bookmark: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Add a note on OP of the model of RUN: a golden op, or the device op made of it."""
    from divergraph.ask.memory.authors import author_name
    from divergraph.ask.memory.notes import add_note

    with opened_to_read(store) as opened_store:
        note = add_note(
            opened_store, run, op, text, author_name(), output=output, bookmark=bookmark
        )
    _show_note(note, as_json=as_json)


@note_command.command("edit")
@click.argument("note")
@click.argument("text")
@common
def edit_note_command(note: str, text: str, store: str | None, as_json: bool) -> None:
    """Let NOTE, which `note list` numbers, say TEXT."""
    from divergraph.ask.memory.notes import edit_note

    with opened_to_read(store) as opened_store:
        edited = edit_note(opened_store, note, text)
    _show_note(edited, as_json=as_json)


@note_command.command("delete")
@click.argument("note")
@common
def delete_note_command(note: str, store: str | None, as_json: bool) -> None:
    """Remove NOTE."""
    with opened_to_read(store) as opened_store:
        opened_store.delete_note(note)
    print_done({"deleted": note}, f"deleted {note}", as_json=as_json)


def _show_note(note: Note, *, as_json: bool) -> None:
    message = f"{note.id}: {note.about}: {note_text(note)}"
    print_or_show(note, lambda _: say_beside(message), as_json=as_json)


@click.group("baseline", context_settings=_HELP)
def baseline_command() -> None:
    """Say which run of a model others are held against; `runs` shows how each stands."""


@baseline_command.command("list")
@limit_option
@common
def list_baselines_command(limit: int | None, store: str | None, as_json: bool) -> None:
    """List the baselines, one a model."""
    from divergraph.ask.questions.baselines import BaselinesAnswer, BaselinesQuestion

    def show(answer: BaselinesAnswer) -> None:
        if not answer.baselines:
            say_beside("no model has a baseline")
        for baseline in answer.baselines:
            say(f"{baseline.model}  {baseline.run}  set by {baseline.author}, {baseline.created}")

    question = BaselinesQuestion()
    print_answer(question, store, show, as_json=as_json, cut=first_rows("baselines", limit))


@baseline_command.command("set")
@click.argument("run", type=RUN)
@common
def set_baseline_command(run: str, store: str | None, as_json: bool) -> None:
    """Make RUN the baseline of its model, in place of an earlier one."""
    from divergraph.ask.memory.authors import author_name
    from divergraph.ask.memory.baselines import set_baseline

    with opened_to_read(store) as opened_store:
        baseline = set_baseline(opened_store, run, author_name())
    _show_baseline(baseline, f"{run} is the baseline of {baseline.model}", as_json=as_json)


@baseline_command.command("drop")
@click.argument("run", type=RUN)
@common
def drop_baseline_command(run: str, store: str | None, as_json: bool) -> None:
    """Let the model of RUN have no baseline."""
    from divergraph.ask.memory.baselines import drop_baseline

    with opened_to_read(store) as opened_store:
        gone = drop_baseline(opened_store, run)
    _show_baseline(gone, f"{gone.model} has no baseline; it was {gone.run}", as_json=as_json)


def _show_baseline(baseline: Baseline, message: str, *, as_json: bool) -> None:
    print_or_show(baseline, lambda _: say_beside(message), as_json=as_json)
