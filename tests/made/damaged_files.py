"""What a reader makes of files in which bytes were changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

from graphstore.errors import ImportFormatError
from importers.registry import read_graph


def changed(data: bytes, random: Random, to: bytes = bytes(range(256)), bytes_: int = 1) -> bytes:
    """*data* with some of its bytes changed to some of *to*."""
    damaged = bytearray(data)
    for _ in range(bytes_):
        damaged[random.randrange(len(data))] = random.choice(to)
    return bytes(damaged)


def endings(path: Path, contents: Iterable[bytes]) -> set[str]:
    """How reading *path* with each of the *contents* ended: ``read`` or ``refused``.

    Anything but a graph or an :class:`ImportFormatError` is raised.
    """
    seen = set()
    for content in contents:
        path.write_bytes(content)
        try:
            list(read_graph(path).edges())
            seen.add("read")
        except ImportFormatError:
            seen.add("refused")
    return seen
