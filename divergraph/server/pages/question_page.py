"""A question on a page: its parameters as a form, its answer as facts and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.api.answer_table import FORMATS
from divergraph.ask.question import (
    Question,
    fields_of,
    help_of,
    is_about_run,
    question_of,
    table_of,
)
from divergraph.ask.questions.tensor import TensorPicture
from divergraph.ask.registry import all_questions
from divergraph.cli.question_command import parameters_of
from divergraph.outcomes import outcome_of_error
from divergraph.present.declared_answer import AnswerTable, answer_parts, json_of
from divergraph.present.pictures.state_map import STATE_MAPS
from divergraph.present.pictures.svg import SvgFragment, state_map, tensor_drawings
from divergraph.present.pictures.tensor_pictures import tensor_pictures
from divergraph.server.answering import Answering, check_role
from divergraph.server.jobs.requests import ANSWERED_BY_JOBS
from divergraph.server.jobs.routes import JobRoutes
from divergraph.server.pages.links import Links, exact_query
from divergraph.server.pages.rendering import Pages
from divergraph.server.pages.row_links import RowLinks
from divergraph.server.parameters import is_required, public_name, said_of, values_of
from divergraph.server.route_table import QuestionRoute, path_of
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import DivergraphError, UnknownNameError

ROWS = 500
"""So many rows of a table stand on a page; a file has them all."""


class ParameterField(NamedTuple):
    """A parameter of a question on the form; ``choices`` are none for a text."""

    name: str
    help: str
    value: str
    required: bool
    choices: tuple[str, ...]


def questions_about(*, runs: bool) -> list[tuple[str, str]]:
    """Names and help of the questions about a run, or about a whole store."""
    return [
        (name, _words_of(kind))
        for name, kind in all_questions().items()
        if is_about_run(kind) == runs
    ]


def _words_of(kind: type[Question[Any]]) -> str:
    """What the question asks, without marks of code."""
    return help_of(kind).replace("`", "")


class QuestionPage:
    """Answers ``/ask/QUESTION`` and ``/runs/RUN/ask/QUESTION``."""

    def __init__(self, answering: Answering, pages: Pages, jobs: JobRoutes | None) -> None:
        self._answering, self._pages, self._jobs = answering, pages, jobs

    async def page(self, request: Request) -> Response:
        """The form, and the answer once all is query that the question needs."""
        kind = all_questions().get(request.path_params["question"])
        run = request.path_params.get("run")
        # A link shows one run, and a question may name others.
        if kind is None or is_about_run(kind) != (run is not None) or request.scope.get("link"):
            raise HTTPException(404)
        check_role(request, QuestionRoute("", kind).role)
        query = {name: text for name, text in exact_query(request).items() if text}

        def work(cancellation: Cancellation) -> Response:
            return self._page(request, kind, run, query, cancellation)

        return await self._answering.pool.answer(request, work)

    async def begin(self, request: Request) -> Response:
        """Have a job find the answer; then its page. A form's other fields are options."""
        check_role(request, UserRole.ANALYST)
        name, run = request.path_params["question"], request.path_params["run"]
        form = await self._pages.seals.form(request, self._pages.settings.limits)
        if self._jobs is None or name not in ANSWERED_BY_JOBS or request.scope.get("link"):
            raise HTTPException(404)
        options = {option: text for option, text in form.items() if text} | {"run": run}

        def work(_cancellation: Cancellation) -> Response:
            assert self._jobs is not None
            job = self._jobs.ask(name, options, request.scope["user"])
            return RedirectResponse(Links.of(request).job(job.id), 303)

        return await self._answering.pool.answer(request, work)

    def _page(
        self,
        request: Request,
        kind: type[Question[Any]],
        run: str | None,
        query: Mapping[str, str],
        cancellation: Cancellation,
    ) -> Response:
        if any(field.name == "limit" for field in fields_of(kind)):  # the form says so, too
            query = {"limit": str(ROWS), **query}
        fields = [
            _form_field(kind, name, param, query)
            for name, param in parameters_of(kind).items()
            if run is None or name != "run"
        ]
        title, mark, more = _words_of(kind).partition("? ")
        values: dict[str, Any] = {
            "question": kind.name,
            "title": title + mark.strip(),
            "more": more,
        }
        values |= {
            "run": run,
            "fields": fields,
            "parts": None,
            "problem": "",
            "files": {},
            "rows": ROWS,
            "picture": "",
            "drawings": (),
            "by_job": self._jobs is not None and run is not None and kind.name in ANSWERED_BY_JOBS,
        }
        status = 200
        if all(field.value for field in fields if field.required):
            try:
                place = {} if run is None else {"run": run}
                question = question_of(kind, values_of(kind, query.items(), place))
                if kind.reads_files and run is not None:
                    self._answering.check_files(run)
                answer = question.ask(self._answering.store, cancellation)
            except DivergraphError as error:
                values["problem"] = str(error)
                # Of a run that is there, a page without a wish is no mistake of who opens it.
                if query or isinstance(error, UnknownNameError):
                    status = outcome_of_error(error).status
            else:
                parts = answer_parts(json_of(question, answer))
                values["parts"] = [
                    part.telling() if isinstance(part, AnswerTable) else part for part in parts
                ]
                values["files"] = _files(kind, run, query)
                values["picture"] = _picture(question)
                values["drawings"] = _drawings(kind.name, answer)
                values["address"] = RowLinks(kind, question, self._answering.store).address
        values["is_table"] = lambda part: isinstance(part, AnswerTable)
        # ``start`` and ``end`` are parameters here, no marks of a part.
        return self._pages.page(request, "question.html", values, status, Links())


def _drawings(question: str, answer: Any) -> list[tuple[str, Markup]]:
    """What the answer looks like, each with its title."""
    drawn: list[tuple[str, SvgFragment]] = []
    if question in STATE_MAPS:
        drawn = [("", state_map(STATE_MAPS[question](answer), _cell_link))]
    elif isinstance(answer, TensorPicture):
        drawn = tensor_drawings(tensor_pictures(answer))
    # Texts in drawings are escaped where they are made.
    return [(title, Markup(drawing.inline())) for title, drawing in drawn]  # noqa: S704


def _cell_link(run: str, op: str) -> str:
    return Links().op(run, op) if op else Links().run(run)


def _picture(question: Question[Any]) -> str:
    """Where the graph shows the answer; empty if it does not."""
    if not question.picture:
        return ""
    texts = {field.name: getattr(question, field.name) or "" for field in fields_of(type(question))}
    values = {"run": "{run}", **question.picture}
    names = {name: text.format_map(texts) for name, text in values.items()}
    return Links().graph(names.pop("run"), **names)


def _form_field(
    kind: type[Question[Any]], name: str, param: click.Parameter, query: Mapping[str, str]
) -> ParameterField:
    choices: tuple[str, ...] = ()
    if isinstance(param.type, click.Choice):
        choices = tuple(map(str, param.type.choices))
    elif isinstance(param.type, click.types.BoolParamType):
        choices = ("true", "false")
    text = query.get(public_name(param), "")
    return ParameterField(
        public_name(param), said_of(param) or "", text, is_required(kind, name), choices
    )


def _files(kind: type[Question[Any]], run: str | None, query: Mapping[str, str]) -> dict[str, str]:
    """The addresses of the table as files, by format."""
    if table_of(kind) is None:
        return {}
    path = path_of(kind)
    return {form: Links().answer(path, run, **query, format=form) for form in FORMATS}
