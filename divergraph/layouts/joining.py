"""What several ranks of golden's job made, put side by side as a run of one rank has it.

Ranks that hold other parts of weights make other parts of a tensor, or addends of it; so do those
that read other data. Of which axis they are parts the shapes of the rank say that they are put
together for. Addends are not added up: what the reduction gave that golden called is the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod

import numpy as np

from divergraph.layouts.counterparts import addend_of, golden_arguments, same_place, without
from divergraph.layouts.joined_rank import DIVISIONS, REDUCTION, JoinedRank
from divergraph.layouts.locating import distance
from divergraph.layouts.rank_layout import INTEGERS, values_of
from divergraph.layouts.shares import AxisShare, Runs, runs_of
from divergraph.layouts.twins import parameter
from graphstore.model import (
    DumpTensorRef,
    ModelGraph,
    Op,
    Reason,
    TensorCut,
    TensorIO,
    TensorJoin,
    TensorRef,
)
from importers.dumps.index import DumpIndex, DumpProblem, TensorKey
from importers.msprobe.calls import CallName
from importers.msprobe.collectives import GROUP, KIND, ranks_words

_CALLED_BETWEEN = ("clone", "contiguous")
"""What may stand between a call that makes an addend and the reduction."""
_STEPS = 3
_SAME = 1e-3
"""Relative distance up to which tensors of two ranks are one: shards and addends are further."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The ranks' run as one, named as the device's calls are, and which ``ranks`` it is of."""

    graph: ModelGraph
    dump: DumpIndex
    ranks: tuple[int, ...]

    def sentence(self) -> str:
        """Which golden ranks these are, as a line for the user."""
        ranks = ranks_words(self.ranks)
        if len(self.ranks) == 1:
            return f"it is held against golden's {ranks}"
        return f"it is held against golden's {ranks}, put side by side"


def gathered(
    ranks: Sequence[JoinedRank], device: ModelGraph, device_dump: DumpIndex, world: Sequence[int]
) -> Gathered:
    """The run of *ranks*, of those in the *world*, as the one run that the graph *device* of a rank
    is held against."""
    return _Joining(ranks, device, device_dump, world).run()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A tensor of a call of one golden rank; ``source`` is where the rank's graph has it from."""

    rank: JoinedRank
    op: Op
    ref: DumpTensorRef
    source: TensorRef | None
    parameter: str

    @property
    def position(self) -> Mapping[int, AxisShare]:
        return self.rank.position(self.op)


class _ApartError(Exception):
    """Why a tensor cannot be put together."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(words)
        self.reason, self.words = reason, words


@dataclass
class _Joining:
    ranks: Sequence[JoinedRank]
    device: ModelGraph
    device_dump: DumpIndex
    world: Sequence[int]
    pieces: dict[TensorKey, list[_Piece]] = field(default_factory=dict)
    calls: dict[str, Op] = field(default_factory=dict)
    """By call of the device the first golden one."""
    apart: set[str] = field(default_factory=set)
    """Golden's calls that made what could not be put together."""

    def run(self) -> Gathered:
        """The calls of all ranks, and their tensors one by one."""
        for rank in self.ranks:
            for op in rank.graph.ops:
                twin = rank.twins.calls.get(op.id)
                if twin is None or op.id in rank.of_layout or twin.attrs.get("kind") == KIND:
                    continue
                self.calls.setdefault(twin.id, op)
                self._collect(rank, op, twin)
        self._micro_batches = max(rank.twins.golden_count for rank in self.ranks)
        self._device_calls = self.device.op_index()
        tensors: dict[TensorKey, DumpTensorRef] = {}
        problems: list[DumpProblem] = []
        for key, pieces in self.pieces.items():
            own = self.device_dump.tensors.get(key)
            if own is None:
                continue
            try:
                tensors[key] = self._joined(own, pieces)
            except _ApartError as error:
                if key[1] is TensorIO.OUTPUT:
                    self.apart.update(piece.op.name for piece in pieces)
                    is_addend = error.reason is Reason.ADDEND
                    twin = self._device_calls[key[0]]
                    addend = addend_of(twin, tensors, self.device_dump) if is_addend else None
                    if addend is not None:
                        tensors[key] = addend
                        continue
                problem = DumpProblem(pieces[0].ref.path, *key, error.reason, error.words)
                problems.append(problem)
        extra = {op.id for op in self.device.ops if op.id not in self.calls}
        ops = [
            replace(op, attrs=golden_arguments(op, self.calls[op.id]))
            for op in without(self.device.ops, extra)
        ]
        graph = replace(self.device, ops=tuple(ops))
        dump = DumpIndex(tensors=tensors, problems=tuple(problems))
        return Gathered(graph, dump, tuple(rank.number for rank in self.ranks))

    def _collect(self, rank: JoinedRank, op: Op, twin: Op) -> None:
        for port, ref in enumerate(op.inputs):
            place = same_place(op, port, twin)
            tensor = rank.dump.tensors.get((op.id, TensorIO.INPUT, port))
            if ref is not None and place is not None and tensor is not None:
                own = parameter(ref.tensor, {}) if ref.producer is None else ""
                piece = _Piece(rank, op, tensor, ref.producer, own)
                self.pieces.setdefault((twin.id, TensorIO.INPUT, place), []).append(piece)
        for output in op.makes:
            tensor = rank.dump.tensors.get((op.id, TensorIO.OUTPUT, output.port))
            if tensor is not None:
                piece = _Piece(rank, op, tensor, output, "")
                key = twin.id, TensorIO.OUTPUT, output.port
                self.pieces.setdefault(key, []).append(piece)

    def _joined(self, own: DumpTensorRef, pieces: Sequence[_Piece]) -> DumpTensorRef:
        """What the *pieces* are together, of the tensor that the device has as *own*."""
        axes = {len(piece.ref.shape or ()) for piece in pieces}
        if own.shape is None or axes != {len(own.shape)}:
            raise _ApartError(Reason.LAYOUT_UNSUPPORTED, "it has not as many axes as golden's")
        if self.apart.intersection(CallName.of(pieces[0].op.name).before) and not own.shape:
            raise _ApartError(Reason.ADDEND, "the gradient of a mean over the data of a rank")
        is_gradient = CallName.of(pieces[0].op.name).way == "parameters_grad"
        if is_gradient and len({_order(piece.position) for piece in pieces}) > 1:
            pieces = [self._reduced(piece) for piece in pieces]
        pieces = sorted(pieces, key=lambda piece: _order(piece.position))
        parts = [
            self._over_weights(own, list(group))
            for _, group in groupby(pieces, key=lambda piece: _order(piece.position))
        ]
        return self._over_data(own, parts).ref

    # over ranks that read the same

    def _over_weights(self, own: DumpTensorRef, pieces: Sequence[_Piece]) -> _Piece:
        """What ranks with parts of weights made of the same data."""
        first = pieces[0]
        of_weights = first.rank.cut_axes.get((first.ref.shape or (), own.shape or ()))
        if of_weights is None and _are_alike(pieces):
            return first
        axis = self._axis_of_weights(own, pieces) if of_weights is None else of_weights
        placed = [piece.rank.parameters.get(piece.parameter) for piece in pieces]
        parts = [dict(placement.runs) for placement in placed if placement is not None]
        runs: list[Runs | None]
        if len(parts) == len(pieces) and any(parts):
            axis = next(axis for part in parts for axis in part)
            runs = [part.get(axis) for part in parts]
        else:  # a weight of the device's that is wrong is placed as those of its shape are
            length = 0 if axis is None else len(pieces) * _length(first.ref, axis)
            shares = [self._share(piece) for piece in pieces]
            runs = [None if share is None else share.of(length) for share in shares]
        if axis is None or any(run is None for run in runs):
            if first.parameter:
                raise _ApartError(Reason.LAYOUT_UNSUPPORTED, "golden's ranks differ in this weight")
            return self._reduced(first)
        ref = _side_by_side(pieces, [run for run in runs if run is not None], axis)
        return replace(first, ref=ref)

    def _axis_of_weights(self, own: DumpTensorRef, pieces: Sequence[_Piece]) -> int | None:
        """The axis of which the *pieces* are parts, by the shape of *own*."""
        shape, device_shape = pieces[0].ref.shape or (), own.shape or ()
        if any(piece.ref.shape != shape for piece in pieces):
            return None
        axes = [
            axis for axis, length in enumerate(shape) if device_shape[axis] == len(pieces) * length
        ]
        if len(axes) > 1 and pieces[0].position:
            axes = axes[1:]  # the batch comes first
        return axes[-1] if axes else None

    def _share(self, piece: _Piece) -> AxisShare | None:
        """Which part of an axis a piece is: as the weight its call reads, if one is cut."""
        for ref in piece.op.inputs:
            name = "" if ref is None or ref.producer is not None else parameter(ref.tensor, {})
            placement = piece.rank.parameters.get(name)
            if placement is not None and 0 in dict(placement.runs):
                return AxisShare("", dict(placement.runs)[0], placement.shape[0])
        return piece.rank.share

    def _reduced(self, piece: _Piece) -> _Piece:
        """What the reduction gave that an addend went into."""
        source, rank = piece.source, piece.rank
        for _ in range(_STEPS):
            readers = rank.readers.get(source, []) if source is not None else []
            reduction = next((op for op in readers if op.type == REDUCTION), None)
            if reduction is not None and self._is_among(reduction):
                means = (
                    op
                    for ref in reduction.makes
                    for op in rank.readers.get(ref, ())
                    if op.id in rank.of_layout and op.type in DIVISIONS
                )
                last = next(means, reduction)
                ref = rank.dump.tensors.get((last.id, TensorIO.OUTPUT, 0))
                if ref is not None and ref.shape == piece.ref.shape:
                    return replace(piece, ref=ref)
            source = next(
                (ref for op in readers if op.type in _CALLED_BETWEEN for ref in op.makes), None
            )
        raise _ApartError(Reason.ADDEND, "golden's ranks have addends of it, and dumped no sum")

    def _is_among(self, reduction: Op) -> bool:
        """Whether no other ranks take part: what they give is not in what the device has."""
        group = reduction.attrs.get(GROUP)
        members = group if isinstance(group, tuple) else self.world
        return {rank.number for rank in self.ranks}.issuperset(members)

    # over ranks and micro batches that read other data

    def _over_data(self, own: DumpTensorRef, parts: Sequence[_Piece]) -> _Piece:
        """What was made of all data, of the *parts* that were made of some."""
        chunks = [
            self._over_axis(own, list(group), 1)
            for _, group in groupby(parts, key=lambda part: _order(part.position, 0))
        ]
        return self._over_axis(own, chunks, 0)

    def _over_axis(self, own: DumpTensorRef, parts: Sequence[_Piece], axis: int) -> _Piece:
        first = parts[0]
        if _are_alike(parts):
            return first
        shares = [part.position.get(axis) for part in parts]
        place = self._axis_of_data(own, first, axis)
        if place is None or any(share is None for share in shares):
            raise _ApartError(Reason.ADDEND, "golden's ranks have addends: means over their data")
        length = sum(_length(part.ref, place) for part in parts)
        runs = [share.of(length) if share else None for share in shares]
        if any(run is None for run in runs):
            raise _ApartError(Reason.LAYOUT_UNSUPPORTED, "golden's ranks read unlike parts")
        ref = _side_by_side(parts, [run for run in runs if run is not None], place)
        batches = first.rank.twins.count if axis == 0 else 1
        times = batches / len(parts)
        if CallName.of(first.op.name).way == "backward" and times != 1.0:
            ref = replace(ref, derived=TensorCut(ref, (), times))
        return replace(first, ref=ref)

    def _axis_of_data(self, own: DumpTensorRef, part: _Piece, axis: int) -> int | None:
        """The axis of the tensor that lies along *axis* of the data."""
        share = part.position.get(axis)
        shape, device_shape = part.ref.shape or (), own.shape or ()
        if share is None:
            return None
        lengths = [length * share.length // share.size for length in shape]
        if axis == 0:
            is_whole = bool(shape) and lengths[0] == device_shape[0] * self._micro_batches
            return 0 if is_whole else None
        fitting = (at for at in range(1, len(shape)) if lengths[at] == device_shape[at] > shape[at])
        return next(fitting, None)


def _order(
    position: Mapping[int, AxisShare], axis: int | None = None
) -> tuple[tuple[int, Runs], ...]:
    """A key that sorts parts of the data, by one *axis* or all."""
    return tuple((at, share.runs) for at, share in sorted(position.items()) if axis in (None, at))


def _are_alike(pieces: Sequence[_Piece]) -> bool:
    """Whether all pieces are the same tensor."""
    first = pieces[0].ref
    return all(_is_same(first, piece.ref) for piece in pieces[1:])


def _is_same(one: DumpTensorRef, other: DumpTensorRef) -> bool:
    if one.shape != other.shape or one.dtype is not other.dtype:
        return False
    if one.statistics is not None:
        return one.statistics == other.statistics
    ours, theirs = values_of(one), values_of(other)
    if ours is None or theirs is None or one.dtype in INTEGERS:
        return ours is not None and theirs is not None and np.array_equal(ours, theirs)
    return distance(ours, theirs) <= _SAME


def _length(ref: DumpTensorRef, axis: int) -> int:
    return (ref.shape or ())[axis]


def _side_by_side(pieces: Sequence[_Piece], runs: Sequence[Runs], axis: int) -> DumpTensorRef:
    """The tensor that has each piece at its *runs* along *axis*."""
    if any(piece.ref.statistics is not None for piece in pieces):
        why = "golden's ranks have parts of it, of which statistics say nothing"
        raise _ApartError(Reason.STATISTICS_ONLY, why)
    pairs = sorted(zip(runs, pieces, strict=True), key=lambda pair: pair[0])
    refs = tuple(piece.ref for _, piece in pairs)
    places = [place for own, _ in pairs for start, stop in own for place in range(start, stop)]
    first = refs[0]
    shape = tuple(
        len(places) if at == axis else length for at, length in enumerate(first.shape or ())
    )
    if sorted(places) != list(range(len(places))) or len(places) != sum(
        _length(ref, axis) for ref in refs
    ):
        raise _ApartError(Reason.LAYOUT_UNSUPPORTED, "golden's ranks have not all parts of it")
    size = first.nbytes // max(prod(first.shape or ()), 1) * prod(shape)
    joined = replace(
        first,
        shape=shape,
        nbytes=size,
        offset=0,
        crc32=None,
        derived=TensorJoin(refs, axis),
    )
    if places == sorted(places):
        return joined
    order = runs_of([int(place) for place in np.argsort(places)])
    return replace(joined, derived=TensorCut(joined, ((axis, order),)))
