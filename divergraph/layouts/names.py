"""Modules that a rank calls otherwise than golden does, found by the values of their weights.

A stage of a pipeline may number its layers from 0, and a rank its experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from divergraph.layouts.locating import roundings, rows_of
from divergraph.layouts.rank_layout import parameter_places, values_of
from divergraph.layouts.twins import parameter
from graphstore.model import ModelGraph
from importers.dumps.index import DumpIndex, TensorKey


def proposed_names(
    golden: ModelGraph, golden_dump: DumpIndex, device: ModelGraph, device_dump: DumpIndex
) -> dict[str, str]:
    """Paths of modules of *device* by which golden has others: ``blocks.0`` where golden's is
    ``blocks.4``. Empty where the weights lie where their names say, or nowhere."""
    own_rows = dict(_first_rows(device, device_dump))
    golden_values = {
        parameter(name, {}): key
        for name, key in parameter_places(golden).items()
        if key in golden_dump.tensors
    }
    moved = {
        name: row
        for name, row in own_rows.items()
        if name not in golden_values or row not in _rows(golden_dump, golden_values[name])
    }
    if not moved:
        return {}
    places: dict[bytes, set[str]] = {}
    for name, key in golden_values.items():
        for row in _rows(golden_dump, key):
            places.setdefault(row, set()).add(name)
    votes: dict[str, Counter[str]] = {}
    for name, row in own_rows.items():
        path, _, weight = name.partition(" ")
        others = [other for other in places.get(row, ()) if other.partition(" ")[2] == weight]
        if name not in moved:
            others = [name]
        for ours, theirs in (
            _prefixes(path, others[0].partition(" ")[0]) if len(others) == 1 else ()
        ):
            votes.setdefault(ours, Counter())[theirs] += 1
    chosen = {ours: count.most_common(1)[0][0] for ours, count in votes.items()}
    return {ours: theirs for ours, theirs in chosen.items() if ours != theirs}


def _first_rows(graph: ModelGraph, dump: DumpIndex) -> Iterator[tuple[str, bytes]]:
    """The first row of each parameter of more than one axis."""
    for name, key in parameter_places(graph).items():
        ref = dump.tensors.get(key)
        values = None if ref is None else values_of(ref)
        if values is not None and values.ndim > 1 and values.size:
            yield parameter(name, {}), rows_of(values, 0)[0].tobytes()


def _rows(dump: DumpIndex, key: TensorKey) -> set[bytes]:
    """The rows of a tensor, rounded as ranks may have it too."""
    values = values_of(dump.tensors[key])
    if values is None or values.ndim < 2:
        return set()
    return {row.tobytes() for rounded in roundings(values, values) for row in rows_of(rounded, 0)}


def _prefixes(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    """The paths of which the modules *ours* and *theirs* have the same names."""
    own, golden = ours.split("."), theirs.split(".")
    while own and golden:
        yield ".".join(own), ".".join(golden)
        if own.pop() != golden.pop():
            return
