"""Answers too large for memory: written to a file, which is sent and gone."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from typing import IO, Any

from anyio import to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_IN_MEMORY = 1 << 20
"""Larger files are written to the disk before they are sent."""
_BLOCK = 1 << 16


class WrittenFile(StreamingResponse):
    """What *write* writes, all of it before any is sent; its file is closed when it is sent or the
    client has gone."""

    def __init__(
        self, write: Callable[[IO[bytes]], None], headers: Mapping[str, str], media_type: str
    ) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - see __call__
        try:
            write(self._file)
            length = str(self._file.tell())
            self._file.seek(0)
        except BaseException:
            self._file.close()
            raise
        sized = {**headers, "Content-Length": length}
        super().__init__(self._blocks(), headers=sized, media_type=media_type)

    async def _blocks(self) -> AsyncIterator[bytes]:
        while block := await to_thread.run_sync(self._file.read, _BLOCK):
            yield block

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()
