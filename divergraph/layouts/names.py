"""Modules that a rank calls otherwise than golden does, found by the values of their weights.

A stage of a pipeline may number its layers from 0, and a rank its experts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from divergraph.layouts.fused_layers import NUMBER
from divergraph.layouts.locating import roundings, rows_of
from divergraph.layouts.rank_layout import parameter_places, values_of
from divergraph.layouts.twins import parameter
from divergraph.text.words import counted
from divergraph.values.array_types import Array
from graphstore.model import ModelGraph
from importers.dumps.index import DumpIndex, TensorKey

_Mark: TypeAlias = tuple[int, bytes]
"""A row or a column of a weight: the axis it is a place of, and its values."""
_AXES = (0, 1)


def proposed_names(
    golden: ModelGraph, golden_dump: DumpIndex, device: ModelGraph, device_dump: DumpIndex
) -> dict[str, str]:
    """Paths of modules of *device* by which golden has others: ``blocks.0`` where golden's is
    ``blocks.4``. Empty where the weights lie where their names say, or nowhere."""
    own_marks = dict(_first(device, device_dump))
    golden_marks = {
        parameter(name, {}): _marks(golden_dump, key)
        for name, key in parameter_places(golden).items()
        if key in golden_dump.tensors and own_marks
    }
    moved = {name for name, own in own_marks.items() if not own & golden_marks.get(name, set())}
    if not moved:
        return {}
    places: dict[_Mark, set[str]] = {}
    for name, marks in golden_marks.items():
        for mark in marks:
            places.setdefault(mark, set()).add(name)
    votes: dict[str, Counter[str]] = {}
    for name, own in own_marks.items():
        path, _, weight = name.partition(" ")
        fitting = {other for mark in own for other in places.get(mark, ())}
        others = [other for other in fitting if other.partition(" ")[2] == weight]
        if name not in moved:
            others = [name]
        for ours, theirs in (
            _prefixes(path, others[0].partition(" ")[0]) if len(others) == 1 else ()
        ):
            votes.setdefault(ours, Counter())[theirs] += 1
    chosen = {ours: count.most_common(1)[0] for ours, count in votes.items()}
    most = Counter({theirs: 0 for theirs, _ in chosen.values()})
    for theirs, number in chosen.values():
        most[theirs] = max(most[theirs], number)
    # A module that golden calls as the rank does is no other's, also where that has its weight.
    kept = {theirs for ours, (theirs, _) in chosen.items() if ours == theirs}
    return {
        ours: theirs
        for ours, (theirs, number) in chosen.items()
        if theirs not in kept and number == most[theirs]
    }


def sentences_of_names(names: Mapping[str, str]) -> Iterator[str]:
    """By which names golden has the modules of the rank, as lines for the user; of layers alike
    but for their numbers the first."""
    kinds: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for ours, theirs in names.items():
        outer, _, last = ours.rpartition(".")
        if (
            outer in names
            and names[outer] == theirs.rpartition(".")[0]
            and theirs.endswith(f".{last}")
        ):
            continue  # it follows from the module around it
        kind = NUMBER.sub("*", ours), NUMBER.sub("*", theirs)
        kinds.setdefault(kind, []).append((ours, theirs))
    for (ours, theirs), *others in kinds.values():
        more = f", and {counted(len(others), 'more module')} likewise" if others else ""
        yield f"the rank's {ours} is golden's {theirs}{more}, by their weights"


def _first(graph: ModelGraph, dump: DumpIndex) -> Iterator[tuple[str, set[_Mark]]]:
    """The first row and the first column of each parameter of more than one axis: a rank that has
    some rows has whole ones, one that has some columns has whole ones of these."""
    for name, key in parameter_places(graph).items():
        ref = dump.tensors.get(key)
        values = None if ref is None else values_of(ref)
        if values is not None and values.ndim > 1 and values.size:
            yield parameter(name, {}), {(axis, _bytes(values, axis)[0]) for axis in _AXES}


def _marks(dump: DumpIndex, key: TensorKey) -> set[_Mark]:
    """The rows and columns of a tensor, rounded as ranks may have it too."""
    values = values_of(dump.tensors[key])
    if values is None or values.ndim < 2:
        return set()
    return {
        (axis, mark)
        for rounded in roundings(values, values)
        for axis in _AXES
        for mark in _bytes(rounded, axis)
    }


def _bytes(values: Array, axis: int) -> list[bytes]:
    return [row.tobytes() for row in rows_of(values.astype(np.float32), axis)]


def _prefixes(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    """The paths of *ours* and *theirs* and of the modules around them, from within."""
    own, golden = ours.split("."), theirs.split(".")
    while own and golden:
        yield ".".join(own), ".".join(golden)
        own.pop()
        golden.pop()
