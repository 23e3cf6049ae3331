"""A declared question, asked from the palette: its form, then its answer in a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.content import Content

from divergraph.ask.question import Question, fields_of, help_of, question_of
from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.jobs.forms import JobForm, question_form
from tui.messages import OpenTarget
from tui.owner import Owner
from tui.screens.windows.job_form import JobFormWindow

if TYPE_CHECKING:
    from tui.screens.windows.answer import AnswerOverlay


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
        try:
            window = _window(owner, kind, form, words)
        except DivergraphError as error:
            text = printable(str(error))
            owner.call_from_thread(owner.show_text, help_of(kind), lambda _: Content(text))
        else:
            owner.call_from_thread(_open, owner, window)

    owner.run_worker(work, thread=True, group="question", exclusive=True)


def _window(
    owner: Owner, kind: type[Question[Any]], form: JobForm, words: Sequence[str]
) -> AnswerOverlay:
    # few ask a question by its form, and the first picture needs none of it
    from divergraph.present.declared_answer import answer_parts, json_of
    from divergraph.present.pictures.state_map import STATE_MAPS
    from tui.screens.windows.answer import AnswerOverlay

    context = form.command.make_context(kind.name, list(words[1:]))
    question = question_of(kind, context.params)
    answer = owner.session.asked(question.ask)
    picture = STATE_MAPS[kind.name](answer) if kind.name in STATE_MAPS else None
    parts = list(answer_parts(json_of(question, answer)))
    return AnswerOverlay(owner.settings.glyphs, help_of(kind), parts, picture)


def _open(owner: Owner, window: AnswerOverlay) -> None:
    def closed(_: str | None) -> None:
        if (chosen := window.chosen) is None:
            return
        if chosen.op and chosen.run in ("", owner.session.target):
            owner.open_op(chosen.op)
        else:
            owner.post_message(OpenTarget(chosen.run, "run"))

    owner.push_screen(window, closed)
