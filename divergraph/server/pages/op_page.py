"""An op: why it has its state, and its tensors on both sides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.api.runs.compared_run import ComparedRun
from divergraph.ask.details import op_detail
from divergraph.ask.facts import find_run
from divergraph.ask.memory.authors import author_name
from divergraph.ask.memory.notes import add_note, list_notes
from divergraph.ask.questions.tensor import TensorQuestion
from divergraph.ask.sentences import ROLE_WORDS
from divergraph.present.pictures.svg import tensor_drawings
from divergraph.present.pictures.tensor_pictures import tensor_pictures
from divergraph.server.answering import Answering, check_role, user_of
from divergraph.server.login.people import check_link
from divergraph.server.pages.links import Links, exact_query
from divergraph.server.pages.rendering import Pages
from divergraph.server.roots import Roots
from divergraph.server.tokens import UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import DivergraphError, InputError
from graphstore.model import Note, Side, TensorIO

_WORST = 8


class SingleOpPage:
    """Answers ``/runs/NAME/op?op=ID``."""

    def __init__(self, answering: Answering, pages: Pages, roots: Roots) -> None:
        self._answering, self._pages, self._roots = answering, pages, roots

    async def page(self, request: Request) -> Response:
        """The op."""
        check_role(request, UserRole.READER)
        if request.query_params.get("values"):
            check_role(request, UserRole.ANALYST)

        def work(_cancellation: Cancellation) -> Response:
            return self._page(request)

        return await self._answering.pool.answer(request, work)

    async def note(self, request: Request) -> Response:
        """Keep a note on the op; then its page."""
        check_role(request, UserRole.ANALYST)
        fields = await self._pages.seals.form(request, self._pages.settings.limits)
        run, query, user = request.path_params["run"], exact_query(request), user_of(request)
        if "op" not in query:
            raise InputError("a parameter is missing", where="op")
        op, author = query["op"], user.name or author_name()
        side = query.get("side") or Side.DEVICE.value

        def work(_cancellation: Cancellation) -> Response:
            add_note(self._answering.store, run, op, fields.get("text", "").strip(), author)
            return RedirectResponse(f"{Links.of(request).op(run, op, side)}#notes", 303)

        return await self._answering.pool.answer(request, work)

    def _page(self, request: Request) -> Response:
        store, name = self._answering.store, request.path_params["run"]
        if (run := find_run(store, name)) is not None:
            check_link(request.scope.get("link"), run)
        query = exact_query(request)
        side = query.get("side") or Side.DEVICE.value
        if side not in list(Side):
            raise InputError("there is no such side", where="side")
        if "op" not in query:
            raise InputError("a parameter is missing", where="op")
        detail = op_detail(store, name, query["op"], Side(side))
        other = Side.GOLDEN if Side(side) is Side.DEVICE else Side.DEVICE
        values = {
            "name": name,
            "detail": detail,
            "row": detail.row,
            "is_run": run is not None,
            "roles": ROLE_WORDS,
            "chosen": query.get("values", ""),
            "notes": self._notes(request, name, detail.row.id, run is not None),
            "there": self._others(name, other, run is not None),
            "other": other,
            **self._values(name, detail.row.id, query.get("values", "")),
        }
        return self._pages.page(request, "op.html", values)

    def _notes(self, request: Request, run: str, op: str, is_run: bool) -> Sequence[Note]:
        """What the team wrote of the op, which is no business of guests."""
        is_guest = request.scope.get("link") is not None
        return list_notes(self._answering.store, run, op) if is_run and not is_guest else ()

    def _others(self, run: str, side: Side, is_run: bool) -> Collection[str]:
        """The ops of the other side of a run: lineage may name more."""
        return self._answering.store.arrays(run, side).number if is_run else ()

    def _values(self, run: str, op: str, wanted: str) -> Mapping[str, Any]:
        """The pictures of the tensor *wanted*, ``output:0``; or why there are none."""
        nothing: dict[str, Any] = {"pictures": None, "drawings": (), "worst": ()}
        nothing["no_pictures"] = ""
        if not wanted:
            return nothing
        io, _, port = wanted.partition(":")
        if io not in list(TensorIO) or not port.isascii() or not port.isdigit() or len(port) > 6:
            raise InputError("a tensor is named input:N or output:N", where="values")
        question = TensorQuestion(run, op, None, int(port), _WORST)
        if io == TensorIO.OUTPUT:
            question = TensorQuestion(run, op, int(port), None, _WORST)
        store = self._answering.store
        try:
            self._roots.check(ComparedRun(run, store=store).files.values())
            place = (run, op, question.output, question.input_)
            answer = question.of(self._answering.tensors.values(*place))
        except HTTPException as error:
            return nothing | {"no_pictures": error.detail}
        except DivergraphError as error:
            return nothing | {"no_pictures": error.what}
        pictures = tensor_pictures(answer)
        # Texts in drawings are escaped where they are made.
        drawings = [
            (title, Markup(drawing.inline()))  # noqa: S704
            for title, drawing in tensor_drawings(pictures)
        ]
        worst = answer.picture.table.worst_absolute
        return nothing | {"pictures": pictures, "drawings": drawings, "worst": worst}
