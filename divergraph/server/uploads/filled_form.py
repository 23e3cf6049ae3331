"""A form of a browser whose files become uploads: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

from anyio import to_thread
from starlette.exceptions import HTTPException

from divergraph.server.login.forms import FIELD, FIELDS
from divergraph.server.uploads.multipart import PartBegin, PartEvent
from divergraph.server.uploads.quarantine import NewUpload, Quarantine, Upload
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError

FILE = "-file"
"""Behind the name of a field: the file that is sent in place of a path."""
_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_BLOCK = 1 << 20


class FilledForm:
    """Takes the fields as they come. Files are of *owner* and may come for the fields *asked*;
    what else was filled in goes to *texts*, *most_text* bytes at the most. *check* is told the seal
    of the form, before any file is taken.

    Once a file is refused, others are read past, so that what was typed in behind it stays; not
    more of them than a user may send.
    """

    def __init__(
        self,
        quarantine: Quarantine,
        owner: str,
        asked: Collection[str],
        check: Callable[[str], None],
        texts: dict[str, str],
        most_text: int,
    ) -> None:
        self._quarantine, self._owner, self._check = quarantine, owner, check
        self._asked = asked
        self._texts = texts
        self._files: dict[str, NewUpload] = {}
        self._field = ""
        self._file: NewUpload | None = None
        self._waiting, self._text_left, self._fields = bytearray(), most_text, 0
        self._is_sealed = False
        self._refused: Exception | None = None
        self._is_skipped, self._skipped_left = False, quarantine.most_bytes

    async def take(self, event: PartEvent) -> None:
        """Take the next of what comes.

        Raises:
            HTTPException: the form is none of ours, or more than may be.
            InputError: it has too many fields.
        """
        if isinstance(event, PartBegin):
            await self._begin(event)
        elif isinstance(event, bytes):
            await self._add(event)
        else:
            await self._end()

    def finish(self, cancellation: Cancellation) -> None:
        """Keep the files; each stands as the path of its upload in the field it was for.

        Raises:
            HTTPException: the form is none of ours, or a file is more than may be.
            InputError: a file cannot be called so; an archive is damaged, leads out of its folder
                or is a bomb.
            OSError: the disk is full.
        """
        if not self._is_sealed:
            self._check("")
        if self._refused is not None:
            raise self._refused
        done: dict[str, Upload] = {}
        try:
            for field, new in self._files.items():
                with _said_of(field):
                    done[field] = new.finish(new.name.lower().endswith(_ARCHIVES), cancellation)
        except BaseException:
            for upload in done.values():
                self._quarantine.remove(upload)
            raise
        for field, upload in done.items():
            self._texts[field] = self._quarantine.inner_path(upload)

    def abandon(self) -> None:
        """Leave nothing of the files that came."""
        for new in self._files.values():
            new.abandon()
        self._files.clear()

    async def _begin(self, part: PartBegin) -> None:
        self._fields += 1
        if self._fields > FIELDS:
            raise InputError(f"a form of ours has no {FIELDS} fields")
        self._field, self._file, self._is_skipped = part.field, None, False
        if not part.file:  # text, or no file was chosen
            return
        if not self._is_sealed:
            self._check("")
        if self._refused is not None:
            self._is_skipped = True
            return
        try:
            self._file = await self._begun(part.field, part.file)
        except (InputError, HTTPException, OSError) as error:
            await self._refuse(error)

    async def _begun(self, field: str, name: str) -> NewUpload:
        option = field.removesuffix(FILE)
        if option == field or option not in self._asked or option in self._files:
            raise InputError("no file is asked for there", where=field)
        with _said_of(option):
            begin = partial(self._quarantine.begin, self._owner, name, None)
            self._files[option] = await to_thread.run_sync(begin)
        return self._files[option]

    async def _refuse(self, error: Exception) -> None:
        """Take no more files, and leave nothing of those that came."""
        self._refused, self._file, self._is_skipped = error, None, True
        self._waiting.clear()
        await to_thread.run_sync(self.abandon)

    async def _add(self, piece: bytes) -> None:
        if self._refused is not None and self._is_skipped:
            self._skipped_left -= len(piece)
            if self._skipped_left < 0:
                raise self._refused
            return
        self._waiting += piece
        if self._file is None:
            self._text_left -= len(piece)
            if self._text_left < 0:
                raise HTTPException(413, "what is typed in is too long")
        elif len(self._waiting) >= _BLOCK:
            await self._write(self._file)

    async def _end(self) -> None:
        if self._file is not None:
            await self._write(self._file)
            return
        if self._is_skipped:
            return
        text = self._waiting.decode("utf-8", "replace")
        self._waiting.clear()
        if self._field == FIELD:
            self._check(text)
            self._is_sealed = True
        elif not self._field.endswith(FILE):
            self._texts[self._field] = text

    async def _write(self, file: NewUpload) -> None:
        try:
            with _said_of(self._field.removesuffix(FILE)):
                await to_thread.run_sync(file.write, bytes(self._waiting))
        except (InputError, HTTPException, OSError) as error:
            await self._refuse(error)
        self._waiting.clear()


@contextmanager
def _said_of(field: str) -> Iterator[None]:
    """Say of what is refused which file it is."""
    try:
        yield
    except InputError as error:
        raise InputError(error.what, where=field, hint=error.hint) from error
    except HTTPException as error:
        raise HTTPException(error.status_code, f"{field}: {error.detail}") from error
