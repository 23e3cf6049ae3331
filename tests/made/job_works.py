"""Works for tests of jobs, in a module of its own so that workers can import it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Square:
    """Squares numbers; each number done is noted in a file, if there is a folder for it."""

    folder: Path | None = None
    seconds: float = 0.0

    def __call__(self, item: int) -> int:
        time.sleep(self.seconds)
        if self.folder is not None:
            with (self.folder / str(item)).open("a") as file:
                file.write("x")
        return item * item

    def lost(self, item: int, why: str) -> int:
        return -1


@dataclass(frozen=True)
class KillsAt:
    """Squares numbers but for some, at which its process dies without a word."""

    numbers: frozenset[int]

    def __call__(self, item: int) -> int:
        if item in self.numbers:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    def lost(self, item: int, why: str) -> int:
        return -item


@dataclass(frozen=True)
class KillsOnce:
    """Kills its process at its first item ever: the file is then there."""

    mark: Path

    def __call__(self, item: int) -> int:
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return item * item
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def lost(self, item: int, why: str) -> int:
        return -1


class TooLarge:
    """Finds no memory for odd numbers, and is wrong about 100."""

    def __call__(self, item: int) -> int:
        if item == 100:
            raise LookupError("not a hundred")
        if item % 2:
            raise MemoryError
        return item

    def lost(self, item: int, why: str) -> int:
        return -item
