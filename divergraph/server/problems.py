"""Errors as problem JSON (RFC 9457): the sentences of the command line, and a status each."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response

from divergraph.outcomes import Outcome, outcome_of_error
from divergraph.text.printable import printable_json
from graphstore.errors import DivergraphError, UnknownNameError

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("divergraph.server")
_TRY_AGAIN = "ask again: each request tries afresh"


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong: ``title`` is of its kind, ``detail`` of this case, ``hint`` the next step.
    ``where`` is the place in what was asked: a parameter, a character of a query."""

    status: int
    title: str
    detail: str
    hint: str = ""
    where: str = ""
    near: tuple[str, ...] = ()

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """It, as is answered."""
        shape = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **({"hint": self.hint} if self.hint else {}),
            **({"where": self.where} if self.where else {}),
            **({"near": list(self.near)} if self.near else {}),
        }
        text = printable_json(json.dumps(shape, indent=2, ensure_ascii=False), ascii_only=False)
        return Response(f"{text}\n", self.status, headers, media_type=MEDIA_TYPE)


def problem_of(error: BaseException) -> Problem:
    """*error* as somebody elsewhere may see it: no path of this machine, no line of our code."""
    if isinstance(error, HTTPException):
        return of_status(error.status_code, error.detail)
    outcome = outcome_of_error(error)
    if not isinstance(error, DivergraphError) or outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        ours = outcome.status == HTTPStatus.INTERNAL_SERVER_ERROR
        log.error("%s: %s", outcome.title, error, exc_info=error if ours else None)
        return _our_trouble(outcome)
    return Problem(
        outcome.status,
        outcome.title,
        error.what,
        error.hint,
        _place(error),
        tuple(error.near) if isinstance(error, UnknownNameError) else (),
    )


def of_status(status: int, detail: str, hint: str = "") -> Problem:
    """What HTTP itself has a word for."""
    return Problem(status, HTTPStatus(status).phrase.lower(), detail, hint)


def _our_trouble(outcome: Outcome) -> Problem:
    detail = "the server's log says what happened"
    hint = _TRY_AGAIN if outcome.status == HTTPStatus.SERVICE_UNAVAILABLE else ""
    return Problem(outcome.status, outcome.title, detail, hint)


def _place(error: DivergraphError) -> str:
    """Where in what was asked; of files the name only."""
    return error.where.rpartition("/")[2]
