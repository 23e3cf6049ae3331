"""Backups of format version 1, as they were before runs were tables: JSON lines a graph or run, and
the length and SHA-256 of each in the list of contents."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Baseline, ModelGraph, Note
from graphstore.schema import codec
from graphstore.transfer.copying import keep_memory
from graphstore.transfer.portable import graph_from_lines, run_from_lines

FIRST_MEMBER = re.compile(r"(?:graphs|runs)/\d{6,9}\.jsonl")


def read_first(archive: zipfile.ZipFile, manifest: Mapping[str, Any], store: GraphStore) -> None:
    """Put all that such a backup has into *store*.

    Raises:
        InputError, TypeError, ValueError, LookupError, AttributeError: it is damaged, or made up.
    """
    sums = {name: facts["sha256"] for name, facts in manifest["members"].items()}

    def graph(member: str) -> ModelGraph:
        return graph_from_lines(_lines(archive, member, sums[member]))

    for entry in manifest["entries"]:
        name, device = entry["name"], graph(entry["device"])
        if entry["kind"] == "graph":
            store.save_graph(device, name, created=entry["created"])
            continue
        run = _lines(archive, entry["run"], sums[entry["run"]])
        data = run_from_lines(run, graph(entry["golden"]), device)
        if data.run.name != name:
            raise InputError(f"{entry['run']} is the run {data.run.name!r}")
        store.save_run(data)
    notes = [codec.decoded(Note, note) for note in manifest.get("notes", ())]
    baselines = [codec.decoded(Baseline, one) for one in manifest.get("baselines", ())]
    keep_memory(store, notes, baselines, {run.name: run.name for run in store.runs()})


def _lines(archive: zipfile.ZipFile, member: str, sha256: str) -> Iterator[bytes]:
    """The lines of a member, which is what was written if they end without error."""
    digest = hashlib.sha256()
    with archive.open(member) as file:
        for line in file:
            digest.update(line)
            yield line
    if digest.hexdigest() != sha256:
        raise InputError(f"{member} was changed or damaged: its SHA-256 is another")
