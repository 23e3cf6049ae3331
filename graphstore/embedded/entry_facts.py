"""What an entry's folder name and manifest say, without reading its tables.

The folder's name is the entry's name. The tables may say another one: the name (and for
a graph the time) they were written with, which ``written`` in the manifest keeps where it is
not that of ``run`` or ``info``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphstore.contract import GraphInfo
from graphstore.cypher.targets import TargetKeys
from graphstore.embedded.disk import SET_ASIDE, DamagedStoreError
from graphstore.embedded.folders import Entry
from graphstore.embedded.shared_tables import MANIFEST
from graphstore.model import Run
from graphstore.schema import codec
from graphstore.schema.codec import plain_text


@dataclass(frozen=True, slots=True)
class Written:
    """What the tables of an entry say of it: its name, and when a graph was imported."""

    name: str
    created: str


def entry_run(entry: Entry) -> Run:
    """The run of an entry, under its name of now."""
    # The manifest is the only place of the record: runs are listed without reading tables.
    try:
        run = codec.decoded(Run, entry.manifest["run"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(entry) from error
    return replace(run, name=entry.name)


def entry_info(entry: Entry) -> GraphInfo:
    """What is listed of an imported graph, under its name of now."""
    try:
        return GraphInfo(**{**entry.manifest["info"], "name": entry.name})
    except (KeyError, TypeError) as error:
        raise damaged(entry) from error


def entry_place(entry: Entry) -> TargetKeys:
    """Where the rows of an entry are in its tables."""
    try:
        device = entry.manifest["device"]
        if entry.kind == "graphs":
            return TargetKeys(entry.name, device["key"], device["content"])
        golden = entry.manifest["golden"]
        return TargetKeys(
            entry.name,
            device["key"],
            device["content"],
            plain_text(entry.manifest["run"]["name"]),
            golden["key"],
            golden["content"],
            repr(entry.stamp),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise damaged(entry) from error


def as_written(entry: Entry) -> Written:
    """What the tables say."""
    try:
        facts = entry.manifest["run" if entry.kind == "runs" else "info"]
        return Written(**entry.manifest.get("written", {k: facts[k] for k in ("name", "created")}))
    except (AttributeError, KeyError, TypeError) as error:
        raise damaged(entry) from error


def is_as_written(entry: Entry) -> bool:
    """True if the tables say of the entry what is true now."""
    created = (entry_run if entry.kind == "runs" else entry_info)(entry).created
    return as_written(entry) == Written(entry.name, created)


def what(entry: Entry) -> str:
    """``run`` or ``graph``."""
    return "run" if entry.kind == "runs" else "graph"


def damaged(entry: Entry, file: str = MANIFEST) -> DamagedStoreError:
    """The error to raise for an entry whose *file* cannot be trusted."""
    return DamagedStoreError(
        f"the {what(entry)} {entry.name!r} is damaged",
        where=str(entry.folder / file),
        hint=f"{SET_ASIDE}; make it again",
    )
