"""Bodies that are larger than memory should hold, as they come."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request

from divergraph.server.settings import Limits


async def received(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    """The parts of the body of *request*, as fast as the client must send it.

    Raises:
        HTTPException: it comes too slowly.
        ClientDisconnect: the client has gone.
    """
    began, size = time.monotonic(), 0
    stream, rate = request.stream(), limits.uploads.rate
    while True:
        try:
            with anyio.fail_after(limits.body_seconds):
                part = await anext(stream, None)
        except TimeoutError as error:
            raise HTTPException(408, "the body took too long") from error
        if part is None:
            return
        size += len(part)
        if time.monotonic() - began > limits.body_seconds + size / rate:
            raise HTTPException(408, f"the body comes at less than {rate} bytes a second")
        yield part
