"""Forms that change something: each holds a seal that pages of others cannot know."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from divergraph.server.bodies import read_body
from divergraph.server.settings import Limits
from graphstore.errors import InputError

FIELD = "seal"
FIELDS = 200
"""So many a form may have."""
_MEDIA_TYPE = "application/x-www-form-urlencoded"


class FormSeals:
    """The seals of forms: one for each session, as long as that; for those without a session one
    for each server, until it ends."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def seal(self, request: Request) -> str:
        """What a form of whoever asks must hold."""
        session: str = request.scope.get("session", "")
        return hmac.new(session.encode() or self._secret, b"a form", hashlib.sha256).hexdigest()

    async def form(self, request: Request, limits: Limits) -> Mapping[str, str]:
        """The fields of the form that was sent; of several of one name the last.

        Raises:
            HTTPException: it is not one of ours, too large or too slow.
            InputError: it is no form.
        """
        if not request.headers.get("content-type", "").startswith(_MEDIA_TYPE):
            raise HTTPException(415, "a form is needed")
        body = await read_body(request, limits)
        try:
            fields = dict(
                parse_qsl(
                    body.decode("utf-8"),
                    keep_blank_values=True,
                    strict_parsing=bool(body),
                    max_num_fields=FIELDS,
                )
            )
        except ValueError as error:
            raise InputError("the body is no form") from error
        self.check(request, fields.pop(FIELD, ""))
        return fields

    def check(self, request: Request, seal: str) -> None:
        """Return if a form of whoever asks holds this *seal*.

        Raises:
            HTTPException: it is of another, or of nobody.
        """
        if not hmac.compare_digest(seal.encode(), self.seal(request).encode()):
            raise HTTPException(403, "this form is too old or none of ours: open the page again")
