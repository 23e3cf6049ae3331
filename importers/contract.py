"""The contract of importers. Built-in and third-party importers are registered the same way."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from graphstore.model import ModelGraph

ENTRY_POINT_GROUP = "divergraph.importers"
"""Distributions register an :class:`Importer` class (or object) under this group."""

HEAD_BYTES = 1 << 16
"""How many bytes of a file :meth:`Importer.detect` is given at most."""


class Confidence(IntEnum):
    """How sure an importer is that it can read a file."""

    NO = 0
    MAYBE = 1
    SURE = 2


class Detection(NamedTuple):
    """How sure an importer is, and what in the file says so, in a few words."""

    confidence: Confidence
    reason: str


class Importer(Protocol):
    """Reads graph files of one format."""

    name: str
    """The format's short name, e.g. ``onnx``; unique among the installed importers."""
    reads: str
    """What it reads, as one phrase for hints: ``ONNX .onnx``."""

    def detect(self, path: Path, head: bytes) -> Detection | Confidence:
        """Whether *path*, which starts with *head* (empty for a folder), is of this format.

        Goes by content; the file's name only tips the balance. Reads nothing large and
        raises nothing. A bare :class:`Confidence` has no reason to tell.
        """
        ...

    def read(self, path: Path) -> ModelGraph:
        """The graph in *path*.

        Raises:
            ImportFormatError: the file is damaged or not of this format.
        """
        ...


@runtime_checkable
class OptionImporter(Protocol):
    """An importer that takes options beside the path."""

    options: Mapping[str, str]
    """Its options by name, each with a phrase that explains it."""

    def read_with(self, path: Path, options: Mapping[str, str]) -> ModelGraph:
        """The graph in *path*; *options* holds only names this importer lists.

        Raises:
            ImportFormatError: the file is damaged or not of this format.
            InputError: an option has a value that cannot be used.
        """
        ...
