"""The folder of what users sent: each upload whole in a folder of its own, or not there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from starlette.exceptions import HTTPException

from divergraph.jobs.background.job_files import read_json, write_json
from divergraph.server.settings import UPLOADS, UploadLimits
from divergraph.server.uploads.unpacking import checked, unpacked
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError, UnknownNameError
from graphstore.file_lock import held_lock, is_locked
from graphstore.private_folder import private_folder

_ABOUT, _FILES, _PART = "about.json", "files", ".part-"
_OF_NO_USE = ("__MACOSX", ".DS_Store")
"""What a Mac adds to its archives."""
_LOCK = "lock"
"""Held by the server that writes an upload."""
_BEGUN_SECONDS = 60.0
"""So long may an upload that begins, or ends, be without a lock."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file, or the folder an archive was unpacked to. ``files`` and ``bytes`` are what it holds;
    times are seconds since 1970."""

    id: str
    name: str
    owner: str
    files: int
    bytes: int
    sha256: str
    created: float
    expires: float
    unpacked: bool

    @property
    def path(self) -> str:
        """How a job names it."""
        return f"{UPLOADS}:{self.id}" + ("" if self.unpacked else f"/{self.name}")


class Quarantine:
    """The uploads below *root*, within *limits*."""

    def __init__(self, root: Path, limits: UploadLimits) -> None:
        self.root = root.absolute()
        self._limits = limits
        self._lock = threading.Lock()
        self._coming: Counter[str] = Counter()

    @property
    def most_bytes(self) -> int:
        """So many may all files of one user have."""
        return self._limits.bytes_of_one

    def begin(self, owner: str, name: str, size: int | None) -> NewUpload:
        """Begin to take a file called *name*, of *size* bytes if that was said.

        Raises:
            InputError: it is no name of a file.
            HTTPException: it, or all of its owner, would be more than may be.
            OSError: the disk has no room.
        """
        _check_name(name)
        mine = self._of(owner)
        used = sum(upload.bytes for upload in mine)
        with self._lock:
            if len(mine) + self._coming[owner] >= self._limits.of_one:
                raise HTTPException(429, f"you have {self._limits.of_one} uploads; delete some")
            self._coming[owner] += 1
        try:
            return self._begun(owner, name, size, used)
        except BaseException:
            self.ended(owner)
            raise

    def _begun(self, owner: str, name: str, size: int | None, used: int) -> NewUpload:
        room = min(self._limits.bytes, self._limits.bytes_of_one - used)
        if (size or 0) > room:
            raise HTTPException(413, f"it is larger than {room} bytes")
        private_folder(self.root)
        if size is not None and shutil.disk_usage(self.root).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return NewUpload(self, owner, name, room, self._limits)

    def check_room(self, owner: str, size: int) -> None:
        """Return if *owner* may keep *size* bytes more, beside what has come meanwhile.

        Raises:
            HTTPException: all of theirs would be too much.
        """
        room = self._limits.bytes_of_one - sum(upload.bytes for upload in self._of(owner))
        if size > room:
            raise HTTPException(413, f"it is larger than {max(0, room)} bytes")

    def ended(self, owner: str) -> None:
        """An upload of *owner* comes no more: it is whole, or given up."""
        with self._lock:
            self._coming[owner] -= 1

    def kept(self) -> list[Upload]:
        """All that are whole, newest first."""
        if not self.root.is_dir():
            return []
        uploads = (self._read(path) for path in self.root.iterdir() if path.name[0] != ".")
        return sorted(
            (upload for upload in uploads if upload),
            key=lambda upload: (-upload.created, upload.id),
        )

    def named(self, name: str) -> Upload:
        """The upload of this id.

        Raises:
            UnknownNameError: there is none.
        """
        upload = self._read(self.root / name) if name.isalnum() else None
        if upload is None:
            raise UnknownNameError("upload", name)
        return upload

    def folder(self, upload: Upload) -> Path:
        """Where its file or files lie."""
        return self.root / upload.id / _FILES

    def inner_path(self, upload: Upload) -> str:
        """How a job names what is in it: of an archive the one folder that holds all, if it has
        such."""
        top = self.folder(upload)
        folder = top
        while upload.unpacked:
            paths = [path for path in folder.iterdir() if path.name not in _OF_NO_USE]
            if len(paths) != 1 or not paths[0].is_dir():
                break
            folder = paths[0]
        below = folder.relative_to(top).as_posix()
        return upload.path if below == "." else f"{upload.path}/{below}"

    def remove(self, upload: Upload) -> None:
        """Forget it, at once for those who look."""
        gone = self.root / f"{_PART}{upload.id}-gone"
        (self.root / upload.id).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def expire(self, in_use: Callable[[Path], bool]) -> None:
        """Forget what is past its time and in no use, and what a killed server began."""
        now = time.time()
        for upload in self.kept():
            if upload.expires < now and not in_use(self.folder(upload)):
                self.remove(upload)
        if self.root.is_dir():
            for part in self.root.glob(f"{_PART}*"):
                if _is_abandoned(part, now):
                    shutil.rmtree(part, ignore_errors=True)

    def _of(self, owner: str) -> list[Upload]:
        return [upload for upload in self.kept() if upload.owner == owner]

    def _read(self, folder: Path) -> Upload | None:
        about = read_json(folder / _ABOUT)
        try:
            expires = about["created"] + self._limits.seconds
            return Upload(**{**about, "expires": expires})
        except (KeyError, TypeError):
            return None  # removed meanwhile, or none of ours


class NewUpload:
    """An upload that still comes. It is seen once :meth:`finish` has returned."""

    def __init__(
        self, quarantine: Quarantine, owner: str, name: str, room: int, limits: UploadLimits
    ) -> None:
        self._quarantine, self._owner, self._limits = quarantine, owner, limits
        self._id, self.name, self._room = secrets.token_hex(16), name, room
        self._part = quarantine.root / f"{_PART}{self._id}"
        self._digest, self._size = hashlib.sha256(), 0
        (self._part / _FILES).mkdir(parents=True, mode=0o700)
        self._lock, self._is_over = ExitStack(), False
        try:
            self._lock.enter_context(held_lock(self._part / _LOCK))
            self._file = (self._part / _FILES / name).open("xb")
        except BaseException:
            self._lock.close()
            shutil.rmtree(self._part, ignore_errors=True)
            raise

    def write(self, block: bytes) -> None:
        """Take the next bytes.

        Raises:
            HTTPException: they are more than may be.
            OSError: the disk is full.
        """
        self._size += len(block)
        if self._size > self._room:
            raise HTTPException(413, f"it is larger than {self._room} bytes")
        self._digest.update(block)
        self._file.write(block)

    def finish(self, unpack: bool, cancellation: Cancellation) -> Upload:
        """The upload, now that all has come; an archive is unpacked if that is wished.

        Raises:
            HTTPException: all of its owner would be more than may be.
            InputError: the archive is damaged, leads out of its folder or is a bomb.
            OSError: the disk is full.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        file, files, size = self._part / _FILES / self.name, 1, self._size
        if unpack:
            packed = file.rename(self._part / "packed")
            files, size = unpacked(packed, file.parent, self._room, self._limits, cancellation)
            packed.unlink()
        else:
            checked(file, self._limits, cancellation)
        self._quarantine.check_room(self._owner, size)
        now = time.time()
        upload = Upload(
            self._id, self.name, self._owner, files, size, self._digest.hexdigest(),
            now, now + self._limits.seconds, unpack,
        )  # fmt: skip
        write_json(self._part / _ABOUT, asdict(upload))
        (self._part / _LOCK).unlink()
        self._lock.close()
        self._part.rename(self._quarantine.root / self._id)
        self._over()
        return upload

    def abandon(self) -> None:
        """Leave nothing of it; what is whole already stays."""
        self._file.close()
        self._lock.close()
        shutil.rmtree(self._part, ignore_errors=True)
        self._over()

    def _over(self) -> None:
        """It comes no more; said once."""
        if not self._is_over:
            self._is_over = True
            self._quarantine.ended(self._owner)


def _check_name(name: str) -> None:
    """Return if a file can be called so.

    Raises:
        InputError: it cannot.
    """
    bad = not name.isprintable() or "/" in name or "\\" in name or name.startswith(".")
    if bad or not 0 < len(name.encode("utf-8", "surrogatepass")) <= 255:
        hint = "a plain name of up to 255 bytes that does not begin with a dot"
        raise InputError(f"{json.dumps(name[:80])} cannot be the name of a file", hint=hint)


def _is_abandoned(part: Path, now: float) -> bool:
    """Whether nobody writes an upload any more: its server was killed."""
    lock = part / _LOCK
    try:
        if lock.exists():
            return not is_locked(lock)
        return part.stat().st_mtime < now - _BEGUN_SECONDS
    except OSError:  # it goes just now
        return False
