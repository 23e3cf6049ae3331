"""The listing of runs, kept in one file so that thousands of manifests need not be read.

Nothing rests on ``<root>/listing``: what it says of a run counts while the run's manifest is the
very file it was made from, by number and time; else the manifest is read. Who lists makes it
again when much of it is not so any more, or it is lost or damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.embedded.disk import draft_path, os_errors
from graphstore.embedded.entry_facts import as_written, entry_run
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.shared_tables import MANIFEST
from graphstore.gc_paused import gc_paused
from graphstore.model import Counts, Run, Verdict
from graphstore.private_folder import share_as
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.tables import SCHEMA_VERSION

LISTING = "listing"
_FORMAT = 2
"""To be raised when the file is written in another way."""
_WORTH = 200
"""So many manifests to be read, if they are a tenth of all, make a new listing worth it."""
_OWN = ("name", "created", "verdict", "counts", "inputs", "warnings")
"""What differs from run to run; many have the rest in common."""
_NONE = Counts(0, 0, 0, 0, 0)
_VERDICTS = {verdict.value: verdict for verdict in Verdict}

_Stamp: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, and the number and time of the manifest that says so.

    ``shared`` names the tables it shares with other runs, and ``key`` is the run's there.
    """

    stamp: _Stamp
    run: Run
    shared: str | None
    key: str

    @classmethod
    def of(cls, entry: Entry) -> ListedRun:
        """What a manifest says."""
        return cls(entry.stamp, entry_run(entry), entry.shared, plain_text(as_written(entry).name))


def listed_runs(folder: StoreFolder, *, may_write: bool) -> list[ListedRun]:
    """All runs by name, under the names of their folders.

    Raises:
        StoreError: a manifest cannot be read.
    """
    if not folder.check():
        return []
    with gc_paused():
        last_listing = _read(folder.root / LISTING)
    listing: dict[str, ListedRun] = {}
    fresh = 0
    for name, stamp in _stamps(folder.root / "runs"):
        listed = last_listing.get(name)
        if listed is None or listed.stamp != stamp:
            entry = folder.entry("runs", name)
            if entry is None:
                continue  # deleted since
            listed = ListedRun.of(entry)
            fresh += 1
        listing[name] = listed
    if may_write and fresh >= max(_WORTH, len(listing) // 10):
        _write(folder.root, listing)
    return [listing[name] for name in sorted(listing)]


def _stamps(runs: Path) -> Iterator[tuple[str, _Stamp]]:
    """The names of the runs, each with what changes when it is replaced."""
    with os_errors("read", runs):
        if not runs.is_dir():
            return
        with os.scandir(runs) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    status = os.stat(f"{entry.path}/{MANIFEST}")  # noqa: PTH116 - 10,000 of them
                except (FileNotFoundError, NotADirectoryError):
                    continue
                yield entry.name, (status.st_ino, status.st_mtime_ns)


def _write(root: Path, listing: Mapping[str, ListedRun]) -> None:
    """Keep *listing* for the next; where that cannot be done there is no listing."""
    text = _text(listing).encode()
    draft = draft_path(root)
    with suppress(OSError):
        try:
            draft.write_bytes(f"{_mark(text)}\n".encode() + text)
            share_as(root, draft)
            draft.replace(root / LISTING)
        finally:
            draft.unlink(missing_ok=True)


def _read(path: Path) -> Mapping[str, ListedRun]:
    """What was kept; nothing, if it is not there, of another version or damaged."""
    try:
        mark, _, text = path.read_bytes().partition(b"\n")
    except OSError:
        return {}
    return _values(text) if mark.decode(errors="replace") == _mark(text) else {}


def _mark(text: bytes) -> str:
    return f"{SCHEMA_VERSION}.{_FORMAT} {hashlib.sha256(text).hexdigest()}"


class _Shared:
    """Values that many runs have in common, each written once."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def place(self, value: object) -> int:
        return self.values.setdefault(json.dumps(value), len(self.values))

    def all(self) -> list[Any]:
        return list(map(json.loads, self.values))


def _text(listing: Mapping[str, ListedRun]) -> str:
    rests, keys, homes, rows = _Shared(), _Shared(), _Shared(), {}
    for name, listed in listing.items():
        run = listed.run
        encoded: dict[str, Any] = codec.encoded(run)
        rest = {field: value for field, value in encoded.items() if field not in _OWN}
        rows[name] = [
            *listed.stamp,
            rests.place(rest),
            run.created,
            run.verdict,
            astuple(run.counts),
            keys.place(list(run.inputs)),
            list(run.inputs.values()),
            run.warnings,
            homes.place(listed.shared),
            listed.key,
        ]
    shared = {"rests": rests.all(), "keys": keys.all(), "homes": homes.all()}
    return json.dumps({**shared, "runs": rows})


def _values(text: bytes) -> dict[str, ListedRun]:
    read = json.loads(text)
    no_run = {"name": "", "created": "", "verdict": Verdict.CLEAN, "counts": codec.encoded(_NONE)}
    rests = [codec.decoded(Run, {**no_run, **rest}) for rest in read["rests"]]
    keys, homes = read["keys"], read["homes"]
    listing = {}
    for name, row in read["runs"].items():
        number, time, rest, created, verdict, counts, inputs, values, warnings, home, key = row
        common = rests[rest]
        run = Run(
            name,
            common.golden,
            common.device,
            created,
            _VERDICTS[verdict],
            common.method,
            Counts(*counts),
            common.thresholds,
            dict(zip(keys[inputs], values, strict=True)),
            tuple(warnings),
            common.version,
            common.analysis,
        )
        listing[name] = ListedRun((number, time), run, homes[home], key)
    return listing
