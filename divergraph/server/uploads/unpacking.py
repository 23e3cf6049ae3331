"""Archives of strangers, unpacked by a process of its own that can be stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from divergraph.server.settings import UploadLimits
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError

_PROGRAM = Path(__file__).with_name("unpack.py")
_LOOK_SECONDS = 0.1
_ZIP = b"PK"


def unpacked(
    archive: Path, folder: Path, room: int, limits: UploadLimits, cancellation: Cancellation
) -> tuple[int, int]:
    """(files, bytes) that were unpacked from *archive* to *folder*, *room* bytes at most.

    Raises:
        InputError: it is no archive, damaged, a bomb, or leads out of *folder*.
        OSError: the disk is full.
        CancelledError: nobody waits for it any more.
    """
    answer = _run(archive, str(folder), room, limits, cancellation)
    return answer["files"], answer["bytes"]


def checked(file: Path, limits: UploadLimits, cancellation: Cancellation) -> None:
    """Return if *file* is no zip (as ``.npz`` is), or one that may be read.

    Raises:
        InputError: it is damaged or a bomb.
    """
    with file.open("rb") as opened:
        is_zip = opened.read(len(_ZIP)) == _ZIP
    if is_zip:
        _run(file, "-", limits.bytes, limits, cancellation)


def _run(
    archive: Path, folder: str, room: int, limits: UploadLimits, cancellation: Cancellation
) -> dict[str, Any]:
    bytes_allowed = min(room, max(limits.ratio * archive.stat().st_size, limits.always_bytes))
    limits_sent = {
        "files": limits.files,
        "bytes": bytes_allowed,
        "memory": limits.memory << 20,
        "seconds": limits.unpack_seconds,
    }
    command = [sys.executable, "-I", str(_PROGRAM), str(archive), folder, json.dumps(limits_sent)]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with cancellation.stopping(process.kill):
                output, _ = process.communicate(timeout=limits.unpack_seconds)
        except subprocess.TimeoutExpired as error:
            message = f"the archive takes longer than {limits.unpack_seconds} s"
            raise InputError(message) from error
        finally:
            process.kill()
    cancellation.check()
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError as error:  # the system ended it
        raise InputError("the archive cannot be unpacked: it takes too much") from error
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]))
    if "refused" in answer:
        raise InputError(f"the archive is refused: {answer['refused']}")
    return answer
