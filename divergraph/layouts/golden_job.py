"""Golden's job of several ranks as the one run that a rank of another layout is held against.

Which golden ranks have what the rank has, their weights and data say. What these ranks made is put
side by side (``joining``), so that the rank sees a golden run of one rank, named as its own calls
are; which part of that it has is found as for any golden run of one rank (``resharding``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from divergraph.layouts.joined_rank import JoinedRank
from divergraph.layouts.joining import Gathered, gathered
from divergraph.layouts.locating import located
from divergraph.layouts.names import proposed_names
from divergraph.layouts.placements import Placement
from divergraph.layouts.rank_layout import INTEGERS, parameter_places, values_of, weight_placements
from divergraph.layouts.resharding import Resharded, resharded
from divergraph.layouts.shares import AxisShare
from divergraph.layouts.twins import twins
from divergraph.values.array_types import Array
from graphstore.model import ModelGraph, TensorIO
from importers.dumps.index import DumpIndex
from importers.msprobe.job_index import rank_folders, rank_graphs, scan_rank

_FEW = 0.1
"""Share of its weights that a rank may have from elsewhere, by mistake."""


@dataclass(frozen=True, slots=True)
class _Rank:
    """A rank of golden's job; ``data`` are the words it read, None where it read none, and ``copy``
    numbers those of the ranks before that have its weights and other data."""

    number: int
    graph: ModelGraph
    dump: DumpIndex
    data: Array | None
    copy: int


@dataclass(frozen=True, slots=True)
class _Fit:
    """What of a golden rank lies in the device's, or has it: the parameters, by the device's names,
    and the parts where golden has the smaller one."""

    rank: _Rank
    names: Mapping[str, str]
    parameters: frozenset[str]
    placements: tuple[Placement, ...]


class GoldenJob:
    """The ranks of golden's job in the folder of the *step*.

    Raises:
        ImportFormatError: the dump of a rank cannot be read.
    """

    def __init__(self, graph: ModelGraph, dump: DumpIndex) -> None:
        self._graph, self._dump = graph, dump
        self._ranks = list(_ranks(Path(graph.source)))
        self._read = dict.fromkeys((rank.copy for rank in self._ranks), 0)

    def resharded(self, device: ModelGraph, device_dump: DumpIndex) -> Resharded | None:
        """Golden's job as the rank with the graph *device* has it; None where the rank's weights
        and data do not say."""
        run = self._beside(device, device_dump)
        if run is None:
            return None
        own = resharded(run.graph, run.dump, device, device_dump)
        if own is None:
            return None
        mapping = (run.sentence(), *own.layout.mapping)
        return replace(own, layout=replace(own.layout, mapping=mapping))

    @property
    def is_data_unread(self) -> bool:
        """Whether no rank so far read what one of golden's ranks read."""
        return not all(self._read.values())

    @property
    def is_data_repeated(self) -> bool:
        """Whether two ranks read what one of golden's ranks read."""
        return any(count > 1 for count in self._read.values())

    def _beside(self, device: ModelGraph, device_dump: DumpIndex) -> Gathered | None:
        """The run of one rank that has what the device's rank has; None where no golden rank has
        anything of it."""
        fits = _fitting([fit for rank in self._ranks if (fit := _fit(rank, device, device_dump))])
        fits, shares = _of_data(fits, _words(device, device_dump))
        if not fits:
            return None
        for copy in {fit.rank.copy for fit in fits}:
            self._read[copy] += 1
        ranks = [
            JoinedRank(
                fit.rank.number,
                fit.rank.graph,
                fit.rank.dump,
                twins(device, fit.rank.graph, fit.names),
                fit.placements,
                shares[fit.rank.number],
            )
            for fit in fits
        ]
        run = gathered(ranks, device, device_dump, [rank.number for rank in self._ranks])
        graph = replace(
            run.graph,
            name=self._graph.name,
            source=self._graph.source,
            sha256=self._graph.sha256,
            warnings=self._graph.warnings,
        )
        dump = replace(self._dump, tensors=run.dump.tensors, problems=run.dump.problems)
        return replace(run, graph=graph, dump=dump)


def _ranks(step: Path) -> Iterator[_Rank]:
    folders = rank_folders(step)
    data: list[bytes] = []
    weights: dict[bytes, int] = {}
    for number, graph in rank_graphs(step):
        dump = scan_rank(folders[number], graph)
        words = _words(graph, dump)
        mark = _mark(graph, dump)
        copy = weights.get(mark, 0)
        if words is not None:
            if words.tobytes() not in data:
                data.append(words.tobytes())
            copy = data.index(words.tobytes())
        weights[mark] = copy + 1
        yield _Rank(number, graph, dump, words, copy)


def _mark(graph: ModelGraph, dump: DumpIndex) -> bytes:
    """What ranks with the same weights have alike."""
    digest = sha256()
    for name, key in sorted(parameter_places(graph).items()):
        ref = dump.tensors.get(key)
        values = None if ref is None else values_of(ref)
        digest.update(name.encode())
        digest.update(b"" if values is None else values.tobytes())
    return digest.digest()


def _words(graph: ModelGraph, dump: DumpIndex) -> Array | None:
    """The integers of more than one axis that no call made, of all micro batches."""
    words: list[Array] = []
    reader = ""
    for op in graph.ops:
        for port, ref in enumerate(op.inputs):
            own = dump.tensors.get((op.id, TensorIO.INPUT, port))
            if ref is None or ref.producer is not None or own is None:
                continue
            if own.dtype not in INTEGERS or not own.shape or len(own.shape) < 2:
                continue
            values = values_of(own) if reader in ("", op.type) else None
            if values is not None and (not words or values.shape[1:] == words[0].shape[1:]):
                reader = op.type
                words.append(values)
    return np.concatenate(words) if words else None


def _fit(rank: _Rank, device: ModelGraph, device_dump: DumpIndex) -> _Fit | None:
    sides = rank.graph, rank.dump, device, device_dump
    others = device, device_dump, rank.graph, rank.dump
    names = proposed_names(*others)
    back = {theirs: ours for ours, theirs in names.items()}
    if not names:
        back = proposed_names(*sides)
        names = {theirs: ours for ours, theirs in back.items()}
    inside = [part for part in weight_placements(*others, names) if part.proved]
    around = [part for part in weight_placements(*sides, back) if part.proved]
    parameters = {part.golden for part in inside} | {part.name for part in around}
    return _Fit(rank, names, frozenset(parameters), tuple(inside)) if parameters else None


def _fitting(fits: Sequence[_Fit]) -> list[_Fit]:
    """Those of the ranks that have what no other has; a rank with other shards has only what all
    have."""

    def is_less(fit: _Fit, other: _Fit) -> bool:
        few = _FEW * len(other.parameters)
        more, less = other.parameters - fit.parameters, fit.parameters - other.parameters
        return len(less) <= few < len(more)

    return [fit for fit in fits if not any(is_less(fit, other) for other in fits)]


def _of_data(
    fits: Sequence[_Fit], words: Array | None
) -> tuple[list[_Fit], dict[int, Mapping[int, AxisShare]]]:
    """Those of the ranks that read some of the device's *words*, or all of them, and by rank which
    part of what all of them read."""
    shares: dict[int, Mapping[int, AxisShare]] = {}
    matching = [fit for fit in fits if fit.rank.data is None]
    for fit in fits:
        data = fit.rank.data
        if data is None:
            continue
        runs = None if words is None else located(data, words)
        if words is not None and runs is not None:
            shares[fit.rank.number] = {
                axis: AxisShare("", run, words.shape[axis]) for axis, run in runs.items()
            }
        elif words is not None and located(words, data) is not None:
            shares[fit.rank.number] = {}
        elif words is not None:
            continue
        matching.append(fit)
    if not any(fit.rank.data is not None for fit in matching):
        matching = list(fits)
    read = {fit.rank.copy for fit in matching if fit.rank.data is not None}
    if read:  # a stage that reads no data has the same place in its group as one that does
        matching = [fit for fit in matching if fit.rank.copy in read]
    matching.sort(key=lambda fit: fit.rank.number)
    copies = sorted({fit.rank.copy for fit in matching})
    by_copy = {fit.rank.copy: shares[fit.rank.number] for fit in fits if fit.rank.number in shares}
    for fit in matching:
        at = copies.index(fit.rank.copy)
        by_order = {0: AxisShare("", ((at, at + 1),), len(copies))} if len(copies) > 1 else {}
        shares.setdefault(fit.rank.number, by_copy.get(fit.rank.copy, by_order))
    return matching, shares
