"""A declared question, asked from the palette: its form, then its answer in a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from divergraph.ask.question import Question, fields_of, help_of, question_of
from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.jobs.forms import JobForm, question_form
from tui.owner import Owner
from tui.screens.windows.job_form import JobFormWindow


def ask(owner: Owner, kind: type[Question[Any]]) -> None:
    """Show the answer to a question about the run that is open, after its form if it has one."""
    form, session = question_form(kind), owner.session
    run = {"run": session.target} if session.kind == "run" and session.target else {}
    if {field.name for field in fields_of(kind)} <= run.keys():
        _show(owner, kind, form, form.words(run))
        return

    def answer(words: Sequence[str] | None) -> None:
        if words is not None:
            _show(owner, kind, form, words)

    window = JobFormWindow(owner.settings.glyphs, form, session.url, run)
    owner.push_screen(window, answer)


def _show(owner: Owner, kind: type[Question[Any]], form: JobForm, words: Sequence[str]) -> None:
    """Ask beside the keys, which go on meanwhile."""

    def work() -> None:
        text = _answer_text(owner, kind, form, words)
        owner.call_from_thread(owner.show_text, help_of(kind), lambda _: Content(text))

    owner.run_worker(work, thread=True, group="question", exclusive=True)


def _answer_text(
    owner: Owner, kind: type[Question[Any]], form: JobForm, words: Sequence[str]
) -> str:
    from divergraph.present.declared_answer import json_lines, json_of

    context = form.command.make_context(kind.name, list(words[1:]))
    question = question_of(kind, context.params)
    try:
        lines = json_lines(json_of(question, owner.session.asked(question.ask)))
    except DivergraphError as error:
        lines = [str(error)]
    return "\n".join(map(printable, lines))
