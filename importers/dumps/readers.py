"""The installed dump readers, and which of them a file or folder belongs to."""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from graphstore.errors import InputError
from importers.contract import Confidence
from importers.dumps.bare.raw import may_be_raw
from importers.dumps.contract import ENTRY_POINT_GROUP, DumpReader, RawForm
from importers.dumps.index import FolderListing

_LOG = logging.getLogger(__name__)


@cache
def installed() -> tuple[DumpReader, ...]:
    """All dump readers that can be loaded, by name and the generic ones last; those that cannot
    are logged.

    Raises:
        InputError: not a single one is installed.
    """
    loaded = (_load(entry) for entry in sorted(entry_points(group=ENTRY_POINT_GROUP)))
    readers = [reader for reader in loaded if reader is not None]
    if not readers:
        raise InputError(
            "no dump reader is installed",
            hint="install divergraph again; in a checkout, pip install -e .",
        )
    return tuple(sorted(readers, key=lambda reader: reader.generic))


def _load(entry: EntryPoint) -> DumpReader | None:
    try:
        loaded = entry.load()
        reader = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:  # noqa: BLE001 - someone else's code: whatever it raises
        _LOG.warning("dump reader %s (%s) cannot be loaded: %s", entry.name, entry.value, error)
        return None
    if not isinstance(reader, DumpReader) or not all(hasattr(reader, it) for it in _FACTS):
        _LOG.warning("dump reader %s (%s) is not complete, left out", entry.name, entry.value)
        return None
    return reader


_FACTS = ("name", "reads")


@cache
def graph_readers() -> tuple[DumpReader, ...]:
    """Those whose dumps are held against graphs."""
    return tuple(reader for reader in installed() if not reader.diff_only)


@cache
def reader_named(name: str) -> DumpReader | None:
    """The reader of this name."""
    return next((reader for reader in installed() if reader.name == name), None)


def reader_of(path: Path, file: str = "", form: RawForm | None = None) -> DumpReader | None:
    """The reader that lists the tensors of the file at *path*, which stands for the long name
    *file* where there is one; None if no reader does. *form* makes raw values of files that no
    other reader claims."""
    name, folder = file or path.name, path.parent.name
    for reader in installed():
        if reader.lists(name, folder) and (
            reader.claims(name, folder) is not Confidence.MAYBE or reader.is_dump(path)
        ):
            return reader
    has_form = form is not None and form.dtype is not None
    return reader_named("raw") if has_form and may_be_raw(name) else None


def owner_of(listing: FolderListing) -> DumpReader | None:
    """The reader a folder belongs to, whatever else lies in it."""
    owners = (reader for reader in graph_readers() if reader.whole_folder)
    return next((reader for reader in owners if reader.owns(listing)), None)


def readers_in(listing: FolderListing) -> tuple[DumpReader, ...]:
    """Those to ask about a folder: the one it belongs to, else all that share folders."""
    if (owner := owner_of(listing)) is not None:
        return (owner,)
    return tuple(reader for reader in graph_readers() if not reader.whole_folder)
