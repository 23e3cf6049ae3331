"""Layers of a rank that are several of golden's in one, or of which golden has several in one.

Training may have ``q_proj``, ``k_proj`` and ``v_proj`` where inference has one ``qkv_proj``, with
their rows one after the other, or by turns in groups of heads. The rows of their weights say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np

from divergraph.layouts.locating import roundings, rows_of
from divergraph.layouts.rank_layout import parameter_places, values_of
from divergraph.layouts.twins import parameter
from divergraph.text.words import counted
from divergraph.values.array_types import Array
from graphstore.model import ModelGraph
from importers.dumps.index import DumpIndex, TensorKey

_WEIGHT = "weight"
_Way: TypeAlias = tuple[tuple[int, ...], tuple[tuple[str, int, int], ...]]
"""How layers of a kind are fused: what is added to the numbers in their paths, and the rows."""
NUMBER = re.compile(r"\d+")
"""A number in the path of a module: layers alike differ by it."""


@dataclass(frozen=True, slots=True, order=True)
class LayerRows:
    """Rows ``start`` to ``stop`` of those that the golden layer number ``layer`` of several has."""

    layer: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """A layer of the rank by its ``path``, the paths of the golden ``layers`` that it is, and which
    ``rows`` of theirs it has, in order: of several layers all, of one that golden has in place of
    several those of the rank."""

    path: str
    layers: tuple[str, ...]
    rows: tuple[LayerRows, ...]

    @property
    def golden_path(self) -> str:
        """Where golden had it, if golden had it as one."""
        parent = self.layers[0].rpartition(".")[0]
        return ".".join(filter(None, (parent, self.path.rpartition(".")[2])))


def other_names(golden: ModelGraph, device: ModelGraph) -> frozenset[str]:
    """The parameters of *device* whose names golden has not."""
    return frozenset(_parameters(device)) - _parameters(golden).keys()


def fused_layers(
    golden: ModelGraph, golden_dump: DumpIndex, device: ModelGraph, device_dump: DumpIndex
) -> list[FusedLayer]:
    """The layers of *device* that are several of golden's. Layers of one kind are fused alike: one
    whose weight is another's says so of all, and those whose weights are wrong are known by it."""
    ours, theirs = _parameters(device), _parameters(golden)
    names = [name for name in other_names(golden, device) if name.partition(" ")[2] == _WEIGHT]
    own = {
        name: values for name in names if (values := _matrix(device_dump, ours[name])) is not None
    }
    widths = {values.shape[1] for values in own.values()}
    origins: dict[bytes, list[tuple[str, int]]] = {}
    lengths: dict[str, int] = {}
    for name, key in theirs.items() if own else ():
        values = _matrix(golden_dump, key)
        if name in ours or values is None or values.shape[1] not in widths:
            continue
        lengths[_path(name)] = len(values)
        for rounded in roundings(values, values):
            for row, mark in enumerate(_marks(rounded)):
                origins.setdefault(mark, []).append((_path(name), row))
    located = {_path(name): _located(values, origins) for name, values in own.items()}
    return list(_alike(located, lengths))


def sentences(layers: Sequence[FusedLayer]) -> Iterator[str]:
    """Which layers of golden's are held against which of the rank's, as lines for the user."""
    for (path, names, rows), alike in groupby(sorted(layers, key=_kind), key=_kind):
        count = len(list(alike))
        of = f" in each of {counted(count, 'layer')}" if count > 1 else ""
        if len(names) == 1:
            places = ", ".join(f"{each.start} to {each.stop - 1}" for each in rows)
            yield f"the rank's {path} has rows {places} of golden's {names[0]}{of}"
        else:
            order = "by turns" if len(rows) > len(names) else "one after the other"
            said = f"{', '.join(names[:-1])} and {names[-1]}"
            yield f"golden's {said} are the rank's {path}{of}: their rows {order}"


def _kind(layer: FusedLayer) -> tuple[str, tuple[str, ...], tuple[LayerRows, ...]]:
    names = tuple(name.rpartition(".")[2] for name in layer.layers)
    return NUMBER.sub("*", layer.path), names, layer.rows


def _parameters(graph: ModelGraph) -> dict[str, TensorKey]:
    return {parameter(name, {}): key for name, key in parameter_places(graph).items()}


def _path(name: str) -> str:
    return name.partition(" ")[0]


def _matrix(dump: DumpIndex, key: TensorKey) -> Array | None:
    """The values of a weight of two axes."""
    ref = dump.tensors.get(key)
    if ref is None or ref.shape is None or len(ref.shape) != 2:
        return None
    values = values_of(ref)
    return None if values is None or values.dtype.kind != "f" else values


def _marks(values: Array) -> Iterator[bytes]:
    return (row.tobytes() for row in rows_of(values.astype(np.float32), 0))


def _located(
    values: Array, origins: Mapping[bytes, Sequence[tuple[str, int]]]
) -> list[tuple[str, int, int]]:
    """The runs of rows of golden's layers that *values* has; none where a row is no layer's. Of
    rows alike the one that follows the row before is meant."""
    runs: list[tuple[str, int, int]] = []
    for mark in _marks(values):
        fitting = origins.get(mark)
        if fitting is None:
            return []
        path, start, stop = runs[-1] if runs else ("", 0, 0)
        if (path, stop) in fitting:
            runs[-1] = path, start, stop + 1
        else:
            path, row = fitting[0]
            runs.append((path, row, row + 1))
    return runs


def _alike(
    located: Mapping[str, Sequence[tuple[str, int, int]]], lengths: Mapping[str, int]
) -> Iterator[FusedLayer]:
    """The layers, each fused as most of its kind are."""
    readers = Counter(runs[0][0] for runs in located.values() if len(_names(runs)) == 1)
    ways: dict[str, Counter[_Way]] = {}
    for path, runs in located.items():
        shifts = {tuple(_shift(path, name)) for name, _, _ in runs}
        is_fused = len(_names(runs)) > 1 or (bool(runs) and readers[runs[0][0]] > 1)
        if is_fused and len(shifts) == 1 and len(_numbers(runs[0][0])) == len(_numbers(path)):
            rows = tuple((NUMBER.sub("*", name), start, stop) for name, start, stop in runs)
            way = shifts.pop(), rows
            ways.setdefault(NUMBER.sub("*", path), Counter())[way] += 1
    for path in located:
        found = ways.get(NUMBER.sub("*", path))
        if found is None:
            continue
        shift, pattern = found.most_common(1)[0][0]
        numbers = [here + by for here, by in zip(_numbers(path), shift, strict=True)]
        runs = [(_numbered(name, numbers), start, stop) for name, start, stop in pattern]
        if all(name in lengths for name in _names(runs)):
            yield _whole(path, runs, lengths)


def _names(runs: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _, _ in runs))


def _whole(
    path: str, runs: Sequence[tuple[str, int, int]], lengths: Mapping[str, int]
) -> FusedLayer:
    """The layer; of several of golden's with all their rows, in the rank's order if it has all."""
    layers = _names(runs)
    size = sum(stop - start for _, start, stop in runs)
    if len(layers) > 1 and size < sum(lengths[name] for name in layers):
        runs = [(name, 0, lengths[name]) for name in layers]
    return FusedLayer(
        path,
        layers,
        tuple(LayerRows(layers.index(name), start, stop) for name, start, stop in runs),
    )


def _shift(path: str, name: str) -> Iterator[int]:
    """How the numbers in *name* differ from those in *path*."""
    return (there - here for here, there in zip(_numbers(path), _numbers(name), strict=False))


def _numbers(path: str) -> list[int]:
    return [int(number) for number in NUMBER.findall(path)]


def _numbered(pattern: str, numbers: Sequence[int]) -> str:
    parts = pattern.split("*")
    return "".join(
        part + (str(number) if number is not None else "")
        for part, number in zip(parts, [*numbers, None], strict=True)
    )
