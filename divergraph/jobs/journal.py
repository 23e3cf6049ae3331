"""What a long job has done so far, kept so that a killed one can go on.

One JSON line a batch: ``{"key of an item": result, ...}``. A line cut by the kill is passed
over. The key of an item tells everything its result depends on, so a changed file is
measured again. What its files are is asked before they are read: a result of what they became
meanwhile has a key that no file has any more, whatever the clocks of machines say.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from graphstore.private_folder import private_folder

R = TypeVar("R")

_WORTH_SECONDS = 5.0
"""A job shorter than this leaves no journal: it is done again sooner than read again."""
_ENDING = ".journal"
_OLDEST_SECONDS = 14 * 24 * 3600.0
_VARIABLE = "DIVERGRAPH_CACHE"


class Journal(Generic[R]):
    """The journal of the job called *name()*, in *folder*. *key* gives the key of an item by
    its number, "" for one that must not be kept. Both are asked only if there is a journal,
    or the job gets long enough for one. *stamp* says what the files of an item are, "" if one
    is missing; it is asked before the item is done.

    *encode* makes a JSON value of a result, *decode* the result of it; a ValueError,
    KeyError or TypeError from it means that item is done again.
    """

    def __init__(
        self,
        name: Callable[[], str],
        key: Callable[[int], str],
        encode: Callable[[R], Any],
        decode: Callable[[Any], R],
        *,
        folder: Path | None = None,
        worth_seconds: float = _WORTH_SECONDS,
        stamp: Callable[[int], str] | None = None,
    ) -> None:
        self._key = key
        self._encode = encode
        self._decode = decode
        self._name = name
        self._folder = journal_folder() if folder is None else folder
        self._worth = worth_seconds
        self._started = time.monotonic()
        self._stamp = stamp
        self._stamps: dict[int, str] = {}
        self._kept: dict[int, R] = {}
        self._file: IO[str] | None = None
        self._off = False
        self._seen = 0

    def done(self, total: int) -> dict[int, R]:
        """Results an earlier job left, by the number of the item, of *total* items."""
        results: dict[int, R] = {}
        if not any(self._folder.glob("*" + _ENDING)):
            return results
        with suppress(OSError, UnicodeDecodeError), self.path.open(encoding="utf-8") as file:
            number_of = self._numbers(total)
            for line in file:
                results |= self._decoded(line, number_of)
        return results

    def grown(self, total: int) -> dict[int, R]:
        """As :meth:`done` of what was added since this was asked last, by another process."""
        results: dict[int, R] = {}
        with suppress(OSError), self.path.open("rb") as file:
            file.seek(self._seen)
            new = file.read()
            lines = new[: new.rfind(b"\n") + 1]  # a line may be half written
            if lines:
                number_of = self._numbers(total)
            for line in lines.splitlines():
                results |= self._decoded(line, number_of)
            self._seen += len(lines)
        return results

    def _numbers(self, total: int) -> dict[str, int]:
        return {self._keyed(number, self._stamped(number)): number for number in range(total)}

    def _decoded(self, line: str | bytes, number_of: Mapping[str, int]) -> dict[int, R]:
        """The results in a line, of items that there are."""
        results: dict[int, R] = {}
        for key, value in _entries(line):
            if key and (number := number_of.get(key)) is not None:
                with suppress(ValueError, KeyError, TypeError, AttributeError):
                    results[number] = self._decode(value)
        return results

    def starting(self, numbers: Iterable[int]) -> None:
        """Hear which items are about to be done, before their files are read."""
        if self._stamp is not None and not self._off:
            self._stamps.update((number, self._stamped(number)) for number in numbers)

    def _stamped(self, number: int) -> str:
        return "" if self._stamp is None else self._stamp(number)

    def _keyed(self, number: int, stamp: str) -> str:
        key = self._key(number)
        if self._stamp is None:
            return key
        return f"{key} {stamp}" if key and stamp else ""

    def add(self, results: Mapping[int, R]) -> None:
        """Keep *results*, on disk once the job has run long enough to be worth it.

        A folder that cannot be written means there is no journal, not that the job fails.
        """
        if self._off:
            return
        self._kept.update(results)
        if self._file is None and time.monotonic() - self._started < self._worth:
            return
        new_results, self._kept = self._kept, {}
        keyed = {
            self._keyed(number, self._stamps.pop(number, "")): self._encode(value)
            for number, value in new_results.items()
        }
        try:
            file = self._opened()
            file.write(json.dumps(keyed, check_circular=False) + "\n")
            file.flush()
        except OSError:
            self._off = True

    def close(self) -> None:
        """The job ends; its journal stays for the next one."""
        self._off = True
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """The job is done: nothing is left of the journal."""
        self.close()
        if "path" in self.__dict__:  # else nobody has looked for it, as there was none
            with suppress(OSError):
                self.path.unlink()

    @cached_property
    def path(self) -> Path:
        """The file of the journal."""
        import hashlib

        name = self._name().encode("utf-8", "surrogatepass")
        return self._folder / (hashlib.sha256(name).hexdigest()[:32] + _ENDING)

    def _opened(self) -> IO[str]:
        if self._file is None:
            private_folder(self.path.parent)
            _forget_old(self.path.parent)
            # A cut line must not take the next one with it.
            cut = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
            self._file = self.path.open("a", encoding="utf-8")
            if cut:
                self._file.write("\n")
        return self._file


def journal_folder() -> Path:
    """Where journals are kept: ``$DIVERGRAPH_CACHE/jobs``, else the user's cache folder."""
    folder = os.environ.get(_VARIABLE)
    if folder:
        return Path(folder) / "jobs"
    from platformdirs import user_cache_path

    return user_cache_path("divergraph") / "jobs"


def text_key(*parts: object) -> str:
    """A key from everything a result depends on but what is in files."""
    import hashlib

    text = "\0".join(map(repr, parts)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def file_stamp(paths: Iterable[str | Path]) -> str:
    """Sizes and times of change of the files at *paths*; empty if one is missing."""
    stamps = []
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - for each tensor
        except OSError:
            return ""
        stamps.append(f"{status.st_size}:{status.st_mtime_ns}")
    return " ".join(stamps)


def _entries(line: str | bytes) -> list[tuple[str, Any]]:
    try:
        content = json.loads(line)
    except ValueError:
        return []
    return list(content.items()) if isinstance(content, dict) else []


def _forget_old(folder: Path) -> None:
    """Remove what jobs nobody went on with left behind."""
    oldest = time.time() - _OLDEST_SECONDS
    for path in folder.glob("*" + _ENDING):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
