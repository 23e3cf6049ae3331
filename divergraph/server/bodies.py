"""The bodies of requests, up to the limits of the server."""

from __future__ import annotations

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request

from divergraph.server.settings import Limits


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body.

    Raises:
        HTTPException: it is too large, or takes too long to come.
    """
    body = bytearray()
    try:
        with anyio.fail_after(limits.body_seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise HTTPException(413, f"more than {limits.body} bytes")
    except TimeoutError as error:
        raise HTTPException(408, "the body took too long") from error
    return bytes(body)
