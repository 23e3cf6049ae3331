"""Answers as the command line prints them with ``--json``, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from divergraph.api.answer_table import FORMATS, table_bytes
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.ask.model_parts import is_graph
from divergraph.ask.question import Question, question_of, runs_of
from divergraph.ask.questions.ops import OpsQuestion
from divergraph.ask.tensor_values import OfTensor
from divergraph.present.declared_answer import ListedOp, json_of, listed_op, ops_parts
from divergraph.present.json_text import Json, json_text
from divergraph.server.asking import AskingPool
from divergraph.server.kept_answers import (
    EncodedAnswer,
    EncodedAnswers,
    EncodedOps,
    OpenedRuns,
    WrittenFile,
)
from divergraph.server.parameters import values_of
from divergraph.server.roots import Roots
from divergraph.server.route_table import QuestionRoute
from divergraph.server.settings import Limits
from divergraph.server.tokens import User, UserRole
from divergraph.text.printable import printable_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.schema import codec

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
FORMAT = "format"
"""The parameter that says how an answer with a table is sent."""
_LONG = 20_000
"""Ops: lists of more are written to a file and sent from there, and none of their texts is kept."""


def check_role(request: Request, needed: UserRole) -> None:
    """Return if whoever asks may.

    Raises:
        HTTPException: their role is less than *needed*.
    """
    if not user_of(request).role.may(needed):
        raise HTTPException(403, f"this needs the role {needed.value}")


def user_of(request: Request) -> User:
    """Whoever asks."""
    user: User = request.scope["user"]
    return user


def is_known(headers: Headers, tag: str) -> bool:
    """Whether a client has what *tag* stands for; proxies that compress make it a weak one."""
    header = headers.get("if-none-match", "")
    tags = (tag_text.strip().removeprefix("W/") for tag_text in header.split(","))
    return header.strip() == "*" or tag in tags


def document(
    shape: Mapping[str, Json], headers: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """*shape* as the command line prints it."""
    return Response(encoded(shape), status, headers, media_type="application/json")


def encoded(shape: Mapping[str, Json]) -> bytes:
    """*shape* as the command line prints it."""
    return f"{printable_json(json_text(shape), ascii_only=False)}\n".encode()


class Answering:
    """Answers questions about *store*, as many at once as *pool* allows; makes files in turns of
    their own, and tells jobs and uploads in *beside*, which waits for no store. Keeps answers and
    where tensors are within *limits*."""

    def __init__(
        self,
        store: GraphStore,
        pool: AskingPool,
        files: AskingPool,
        beside: AskingPool,
        roots: Roots,
        limits: Limits,
    ) -> None:
        self.store = store
        self.pool, self.files, self.beside = pool, files, beside
        self.tensors = OpenedRuns(store, limits.opened << 20)
        self._roots = roots
        capacity = limits.kept << 19
        self._kept, self._ops = EncodedAnswers(capacity), EncodedOps(capacity)

    def endpoint(self, route: QuestionRoute) -> Endpoint:
        """What answers the address of *route*."""

        async def answer(request: Request) -> Response:
            check_role(request, route.role)
            path_values = {name: str(value) for name, value in request.path_params.items()}
            query_pairs = request.query_params.multi_items()
            form = _form(query_pairs) if route.has_table else "json"
            values = values_of(route.question, query_pairs, path_values)
            question: Question[Any] = question_of(route.question, values)
            if form != "json":
                return await self._table(request, question, form)
            return await self.answer(
                request, question, path_values.get("run"), reads_files=route.question.reads_files
            )

        return answer

    async def _table(self, request: Request, question: Question[Any], form: str) -> Response:
        """The table of the answer to *question* as a file."""

        def work(cancellation: Cancellation) -> Response:
            answer = question.ask(self.store, cancellation)
            content = table_bytes(type(question), answer, form)
            return Response(content, media_type=FORMATS[form].media_type)

        return await self.pool.answer(request, work)

    def check_files(self, run: str) -> None:
        """Return if the files of *run*, or of an imported graph, may be read.

        Raises:
            HTTPException: one lies in none of the roots.
            InputError: one is not there any more.
        """
        try:
            files = [*ComparedRun(run, store=self.store).files.values()]
        except UnknownNameError:
            if not is_graph(self.store, run):
                raise
            files = [Path(self.store.graph_columns(run).header.source)]
        self._roots.check(files)

    async def answer(
        self,
        request: Request,
        question: Question[Any],
        target: str | None = None,
        *,
        reads_files: bool = False,
    ) -> Response:
        """The answer to *question*; nothing if the client has it: the run or graph *target* that
        it is about is as it was."""

        def work(cancellation: Cancellation) -> Response:
            if target is None:
                return document(json_of(question, question.ask(self.store, cancellation)))
            if reads_files:
                self.check_files(target)
            return self._answer(request, question, target, cancellation, keep=not reads_files)

        return await self.pool.answer(request, work)

    def _answer(
        self,
        request: Request,
        question: Question[Any],
        target: str,
        cancellation: Cancellation,
        *,
        keep: bool,
    ) -> Response:
        # the target first; a question may be about other runs, too
        names = dict.fromkeys((target, *runs_of(question)))
        stamp = "".join(map(self._stamp, names))
        tag = _tag(question, stamp)
        headers = {"ETag": tag}
        if is_known(request.headers, tag):
            return Response(status_code=304, headers=headers)
        place = f"{request.url.path} {tag}"
        answer = self._kept.get(place) if keep else None
        if answer is None:
            body = self._encoded(request, question, stamp, cancellation)
            if isinstance(body, WrittenFile):
                body.headers["ETag"] = tag
                return body
            answer = body
            if keep:
                self._kept.keep(place, answer)
        if answer.link:
            headers["Link"] = answer.link
        return Response(answer.body, 200, headers, media_type="application/json")

    def _encoded(
        self, request: Request, question: Question[Any], stamp: str, cancellation: Cancellation
    ) -> EncodedAnswer | WrittenFile:
        if isinstance(question, OpsQuestion):
            return self._page(request, question, stamp)
        if isinstance(question, OfTensor):
            place = (question.run, question.op, question.output, question.input_)
            answer = question.of(self.tensors.values(*place))
            return EncodedAnswer(encoded(json_of(question, answer)))
        return EncodedAnswer(encoded(json_of(question, question.ask(self.store, cancellation))))

    def _page(
        self, request: Request, question: OpsQuestion, stamp: str
    ) -> EncodedAnswer | WrittenFile:
        """A page of ops, made of the texts of single ones; a long list, op by op."""
        owner = _tag(question.side, stamp)
        ids, numbers = question.numbers(self.store)
        link = ""
        if len(numbers) == question.limit:
            following = request.url.include_query_params(after=ids[numbers[-1]])
            link = f'<{following.path}?{following.query}>; rel="next"'
        if len(numbers) > _LONG:
            listed = question.listed(self.store, numbers)

            def write(file: IO[bytes]) -> None:
                parts = chain(ops_parts(question.run, map(listed_op, listed)), "\n")
                file.writelines(printable_json(part, ascii_only=False).encode() for part in parts)

            return WrittenFile(write, {"Link": link} if link else {}, "application/json")

        def made(missing: list[int]) -> list[ListedOp]:
            return list(map(listed_op, question.listed(self.store, missing)))

        text = "".join(ops_parts(question.run, self._ops.listed(owner, numbers, made)))
        return EncodedAnswer(f"{printable_json(text, ascii_only=False)}\n".encode(), link)

    def tag(self, question: object, target: str) -> str:
        """Changes with what is kept under *target*."""
        return _tag(question, self._stamp(target))

    def _stamp(self, target: str) -> str:
        """What is kept under *target*, which is written once and replaced whole, and its notes."""
        try:
            run = self.store.run(target)
            return codec.text_of(run) + codec.text_of(self.store.notes(run.golden))
        except UnknownNameError:
            infos = (info for info in self.store.graphs() if info.name == target)
            if (info := next(infos, None)) is None:
                raise
            return codec.text_of(info)


def _tag(question: object, stamp: str) -> str:
    return f'"{hashlib.sha256(f"{question!r} {stamp}".encode()).hexdigest()[:32]}"'


def _form(query_pairs: list[tuple[str, str]]) -> str:
    """The format that is wanted, which is taken out of *query_pairs*.

    Raises:
        InputError: there is no such format.
    """
    names = [text for name, text in query_pairs if name == FORMAT]
    query_pairs[:] = [entry for entry in query_pairs if entry[0] != FORMAT]
    form = names[-1] if names else "json"
    if form != "json" and form not in FORMATS:
        hint = f"json, {', '.join(FORMATS)}"
        raise InputError("there is no such format", where=FORMAT, hint=hint)
    return form
