"""Golden's run as one rank of a job would have it that is split over ranks otherwise.

The rank's weights and data say which part of golden's it has (``rank_layout``). Of what calls read
and make the shapes say which axes are cut; the parts follow from those of weights and data. What a
call makes of cut tensors that is not cut itself is an addend: only the sum over ranks is golden's.
What follows neither way has no golden tensor, and is not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from divergraph.layouts.counterparts import addend_of, golden_arguments, same_place, without
from divergraph.layouts.fused_calls import with_fused_layers
from divergraph.layouts.fused_layers import fused_layers, sentences
from divergraph.layouts.joined_rank import DIVISIONS
from divergraph.layouts.locating import cut, distance
from divergraph.layouts.names import proposed_names, sentences_of_names
from divergraph.layouts.placements import Placement
from divergraph.layouts.rank_layout import RankLayout, rank_layout, values_of
from divergraph.layouts.rule import rules
from divergraph.layouts.shares import AxisShare, Runs, within
from divergraph.layouts.twins import Twins, parameter, twins
from divergraph.values.array_types import Array
from divergraph.values.orders import is_reordered
from graphstore.model import DType, DumpTensorRef, ModelGraph, Op, Reason, TensorCut, TensorIO
from importers.dumps.index import DumpIndex, DumpProblem, TensorKey
from importers.msprobe.calls import CallName
from importers.msprobe.graph import own_inputs

_COLLECTIVE = "Distributed"
_WEIGHTS, _DATA = "weights", "data"
_WHOLE_NUMBERS = frozenset(
    {DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8, DType.BOOL}
)
_UNLIKE = 0.5
"""Relative distance from which a part of golden's is none of the rank's, where its axis may be cut
otherwise than the data: of what experts are sent, or gathered."""


_CHOSEN_OTHERWISE = 0.25
"""Share of the whole numbers in a part of golden's that may differ, as a router of experts chooses
some otherwise in 16 bits."""


@dataclass(frozen=True, slots=True)
class Resharded:
    """Golden's graph and dump as the rank has them, and the ``layout`` that was found."""

    graph: ModelGraph
    dump: DumpIndex
    layout: RankLayout


@dataclass(frozen=True, slots=True)
class _Part:
    """How a tensor lies in golden's: by axis its runs, and the shares that may cut it so.
    ``is_sure``: axes of such a length are cut by the data, if any is."""

    runs: tuple[tuple[int, Runs], ...] = ()
    shares: frozenset[str] = frozenset()
    is_sure: bool = True


def resharded(
    golden: ModelGraph, golden_dump: DumpIndex, device: ModelGraph, device_dump: DumpIndex
) -> Resharded | None:
    """Golden's run as the rank with the graph *device* has it; None where the rank's weights and
    data do not say."""
    fused = fused_layers(golden, golden_dump, device, device_dump)
    golden, golden_dump = with_fused_layers(golden, golden_dump, fused)
    names = proposed_names(golden, golden_dump, device, device_dump)
    calls = twins(golden, device, names)
    layout = rank_layout(golden, golden_dump, device, device_dump, calls, names)
    layout = replace(layout, mapping=(*sentences(fused), *sentences_of_names(names)))
    if not layout.is_proved:
        return None
    return _Resharding(golden, golden_dump, device, device_dump, calls, layout, names).run()


@dataclass
class _Resharding:
    golden: ModelGraph
    golden_dump: DumpIndex
    device: ModelGraph
    device_dump: DumpIndex
    twins: Twins
    layout: RankLayout
    names: Mapping[str, str]
    tensors: dict[TensorKey, DumpTensorRef] = field(default_factory=dict)
    problems: list[DumpProblem] = field(default_factory=list)
    parts: dict[TensorKey, _Part | None] = field(default_factory=dict)
    reduced: dict[str, frozenset[str]] = field(default_factory=dict)
    """By call that makes an addend of golden's the shares over whose ranks it is added up."""
    factors: dict[int, float] = field(default_factory=dict)
    """By micro batch how much larger the rank's gradients are than golden's."""

    def run(self) -> Resharded:
        """All calls in their order."""
        self._placements = {placement.name: placement for placement in self.layout.placements}
        self._ids = {op.name: op.id for op in self.device.ops}
        self._reducing = _with_collectives(self.device)
        ops = [self._op(op) for op in self.device.ops]
        self._between()
        kinds = {op.id: op.attrs.get("kind") for op in ops}
        calls = self.twins.calls
        # A call between ranks is of the layout; what else golden does not call it lacks here, too.
        extra = {op for op, kind in kinds.items() if op not in calls and kind != _COLLECTIVE}
        ops = without(ops, extra)
        digest = hashlib.sha256(f"{self.golden.sha256} {self.device.sha256}".encode()).hexdigest()
        graph = replace(
            self.device,
            name=f"{self.golden.name} as {self.device.name}",
            ops=tuple(ops),
            source=self.golden.source,
            sha256=digest,
            warnings=self.golden.warnings,
        )
        dump = replace(
            self.golden_dump,
            tensors=self.tensors,
            problems=(*self.golden_dump.problems, *self.problems),
        )
        return Resharded(graph, dump, self.layout)

    def _op(self, op: Op) -> Op:
        twin = self.twins.calls.get(op.id)
        if twin is None:
            return op
        for port in range(len(op.inputs)):
            self._tensor(op, twin, TensorIO.INPUT, port)
        for port in range(len(op.outputs)):
            self._tensor(op, twin, TensorIO.OUTPUT, port)
        return replace(op, attrs=golden_arguments(op, twin))

    def _between(self) -> None:
        """Golden's tensors of calls that golden lacks, as those between ranks: what they give is
        what is read of them, or what the module gives out that they are in."""
        for op in reversed(self.device.ops):
            self._before_division(op)
            passed = {tensor.name: port for port, tensor in enumerate(op.outputs)}
            for port, ref in enumerate(op.inputs[: own_inputs(op)]):
                source = None if ref is None else ref.producer
                if ref is None or source is None or source.op in self.twins.calls:
                    continue
                key = op.id, TensorIO.INPUT, port
                if ref.tensor in passed:
                    key = op.id, TensorIO.OUTPUT, passed[ref.tensor]
                tensor = self.tensors.get(key)
                if tensor is None:
                    continue
                read = self.device_dump.tensors.get(key)
                key = source.op, TensorIO.OUTPUT, source.port
                own = self.device_dump.tensors.get(key)
                if own is None or own.shape != tensor.shape or read is None:
                    continue
                if not is_reordered(own, read):  # as experts' rows are, put back in order
                    self.tensors.setdefault(key, tensor)

    def _before_division(self, op: Op) -> None:
        """Golden's tensor before the division that makes a sum over ranks their mean."""
        by = op.attrs.get("input.1")
        mean = self.tensors.get((op.id, TensorIO.OUTPUT, 0))
        key = op.id, TensorIO.INPUT, 0
        if op.id in self.twins.calls or op.type not in DIVISIONS or key in self.tensors:
            return
        if mean is None or mean.statistics is not None or not isinstance(by, int | float):
            return
        self.tensors[key] = replace(mean, derived=TensorCut(mean, (), float(by)), crc32=None)

    def _tensor(self, op: Op, twin: Op, io: TensorIO, port: int) -> None:
        key = op.id, io, port
        place = port if io is TensorIO.OUTPUT else same_place(op, port, twin)
        origin = None if place is None else (twin.id, io, place)
        own = self.device_dump.tensors.get(key)
        whole = None if origin is None else self.golden_dump.tensors.get(origin)
        if own is None or whole is None or origin is None:
            return
        part = self._part(op, io, port, own, whole)
        self.parts[key] = part if isinstance(part, _Part) else None
        if isinstance(part, _Unplaced):
            of_weights = self.reduced.get(op.id) == frozenset((_WEIGHTS,))
            is_addend = io is TensorIO.OUTPUT and of_weights
            addend = addend_of(op, self.tensors, self.device_dump) if is_addend else None
            if addend is not None:
                self.tensors[key] = addend
                return
            self.problems.append(DumpProblem(whole.path, op.id, io, port, *part))
            return
        ref = _cut_out(whole, part, own, self._factor(op, own, whole, part))
        if ref is None:
            why = "the rank has a part of golden's, of which statistics say nothing"
            problem = DumpProblem(whole.path, op.id, io, port, Reason.STATISTICS_ONLY, why)
            self.problems.append(problem)
            return
        self.tensors[key] = ref

    # parts

    def _part(
        self, op: Op, io: TensorIO, port: int, own: DumpTensorRef, whole: DumpTensorRef
    ) -> _Part | _Unplaced:
        """How the tensor lies in golden's, or why it is not known."""
        if own.shape is None or whole.shape is None or len(own.shape) != len(whole.shape):
            return _unknown("it has not as many axes as golden's")
        weight = self._parameter(op, io, port)
        if weight is not None:
            return _Part(weight.runs, frozenset((_WEIGHTS,) if weight.runs else ()))
        if own.dtype in _WHOLE_NUMBERS and self._reads_cut_rows(op):
            return _unknown("whole numbers that count places of the rank, or of golden's")
        if of_addends := self._of_addends(op, (port,) if io is TensorIO.INPUT else None):
            if io is TensorIO.OUTPUT:
                self.reduced[op.id] = of_addends
            return _addend("it is made of one")
        name = CallName.of(op.name)
        data = self.layout.data.get(self.twins.micro_batches[op.id], {})
        if name.way == "parameters_grad" and data:
            return _addend("its data give an addend of golden's gradient")
        read = (
            self._read(op) if io is TensorIO.OUTPUT and op.id not in self._reducing else frozenset()
        )
        if own.shape == whole.shape:
            part: _Part | _Unplaced = _Part()
            there = self._ids.get(name.before[0]) if name.way == "backward" and name.before else ""
            if io is TensorIO.INPUT and self.reduced.get(there or "") == frozenset((_DATA,)):
                return _addend("the gradient of a mean over the data it has")
        else:
            part = self._best(op, own, whole, self._parts(own.shape, whole.shape, data), read)
        if isinstance(part, _Part):
            part = self._in_order(own, whole, data, part)
        missing = read - part.shares if isinstance(part, _Part) else frozenset()
        if missing:
            self.reduced[op.id] = missing
            named = " and the ".join(sorted(missing))
            return _addend(f"it has a part of the {named}")
        return part

    def _in_order(
        self,
        own: DumpTensorRef,
        whole: DumpTensorRef,
        data: Mapping[int, AxisShare],
        part: _Part,
    ) -> _Part:
        """*part*, with the axis of a sequence that ranks have some places of each in the order of
        ranks, as they gather it, where the values are nearer to that."""
        shape = self.layout.data_shape
        orders = _gathered_orders(data[1], shape[1]) if 1 in data and len(shape) > 1 else []
        cut_axes = dict(part.runs)
        axes = [
            axis
            for axis, size in enumerate(whole.shape or ())
            if orders and size == shape[1] and axis not in cut_axes
        ]
        ours, theirs = (values_of(own), values_of(whole)) if axes else (None, None)
        if ours is None or theirs is None:
            return part
        choices = [part.runs]
        choices += [(*part.runs, (axis, order)) for axis in axes for order in orders]
        nearest = min(choices, key=lambda runs: distance(ours, cut(theirs, dict(runs))))
        return replace(part, runs=nearest)

    def _of_addends(self, op: Op, ports: tuple[int, ...] | None) -> frozenset[str]:
        """The shares over whose ranks what *op* reads at *ports*, or all it reads if it calls no
        other rank, is yet to be added up: what was made of an addend, perhaps through a cast."""
        if ports is None:
            ports = () if op.id in self._reducing else tuple(range(own_inputs(op)))
        names = {ref.tensor for port in ports if (ref := op.inputs[port]) is not None}
        return frozenset().union(
            *(
                self.reduced.get(ref.producer.op, ())
                for ref in op.inputs
                if ref is not None and ref.producer is not None
                if ref.tensor.partition(" (")[0] in names
            )
        )

    def _reads_cut_rows(self, op: Op) -> bool:
        """Whether *op* looks rows up in a weight of which the rank has some."""
        weights = (self._parameter(op, TensorIO.INPUT, port) for port in range(len(op.inputs)))
        return any(0 in dict(weight.runs) for weight in weights if weight is not None)

    def _read(self, op: Op) -> frozenset[str]:
        """The shares that cut what *op* reads."""
        parts = (self.parts.get((op.id, TensorIO.INPUT, port)) for port in range(len(op.inputs)))
        return frozenset().union(*(part.shares for part in parts if part is not None))

    def _parts(
        self, own: tuple[int, ...], whole: tuple[int, ...], data: Mapping[int, AxisShare]
    ) -> list[_Part]:
        """The parts of golden's tensor that have the rank's shape, no share cutting two axes."""
        choices = [
            list(self._choices(axis, own[axis], whole[axis], data))
            for axis in range(len(own))
            if own[axis] != whole[axis]
        ]
        return [
            _Part(
                tuple((choice.axis, choice.runs) for choice in chosen),
                frozenset(choice.share for choice in chosen),
                all(choice.is_sure for choice in chosen),
            )
            for chosen in product(*choices)
            if len({choice.share for choice in chosen}) == len(chosen) or len(data) > 1
        ]

    def _parameter(self, op: Op, io: TensorIO, port: int) -> Placement | None:
        if io is not TensorIO.INPUT:
            return None
        ref = op.inputs[port]
        name = "" if ref is None or ref.producer is not None else parameter(ref.tensor, {})
        placement = self._placements.get(name) if name else None
        return placement if placement is not None and placement.proved else None

    def _choices(
        self, axis: int, own: int, whole: int, data: Mapping[int, AxisShare]
    ) -> Iterator[_Choice]:
        """The parts that an axis may be, with the share that says so."""
        for runs, is_sure in _of_data(whole, data, self.layout.data_shape):
            if runs is not None and _size(runs) == own:
                yield _Choice(axis, runs, _DATA, is_sure)
        for share in self.layout.weights:
            runs = share.of(whole)
            if runs is not None and _size(runs) == own:
                yield _Choice(axis, runs, _WEIGHTS)

    def _best(
        self,
        op: Op,
        own: DumpTensorRef,
        whole: DumpTensorRef,
        parts: list[_Part],
        read: frozenset[str],
    ) -> _Part | _Unplaced:
        """The part whose values are nearest, of those alike the one cut as what *op* reads; the
        only one without a look at values."""
        parts.sort(key=lambda part: len(read - part.shares))
        alike = {part.runs: part for part in reversed(parts)}
        if not alike:
            return _Unplaced(
                Reason.LAYOUT_UNSUPPORTED,
                "no part of the weights or of the data that the rank has is as long",
            )
        is_number = own.dtype not in _WHOLE_NUMBERS
        first = parts[0]
        if len(alike) == 1 and first.is_sure and is_number:
            return first
        ours, theirs = values_of(own), values_of(whole)
        if ours is None or theirs is None:
            return _Unplaced(
                Reason.LAYOUT_UNSUPPORTED, "only values tell which part of golden's it is"
            )
        factors = self._factors(op)
        errors = {
            part.runs: min(
                distance(ours, cut(theirs, dict(part.runs)) * factor)
                for factor in (factors if _DATA in part.shares else (1.0,))
            )
            for part in alike.values()
        }
        best = alike[min(errors, key=errors.__getitem__)]
        if not is_number and np.mean(ours != cut(theirs, dict(best.runs))) > _CHOSEN_OTHERWISE:
            return _Unplaced(
                Reason.LAYOUT_UNSUPPORTED,
                "whole numbers that count places of the rank, or of golden's",
            )
        if not best.is_sure and _is_unlike(ours, cut(theirs, dict(best.runs))):
            return _Unplaced(
                Reason.LAYOUT_UNSUPPORTED,
                "its values are no part of golden's that the rank may have",
            )
        return best

    # gradients

    def _factors(self, op: Op) -> tuple[float, ...]:
        """How many times larger the gradients of the data may be than golden's: each rank takes the
        mean over its own. The first one says which it is."""
        number = self.twins.micro_batches[op.id]
        if not _is_back(op):
            return (1.0,)
        if number in self.factors:
            return (self.factors[number],)
        shares = self.layout.data.get(number, {}).values()
        return (1.0, prod(share.length / share.size for share in shares))

    def _factor(
        self, op: Op, own: DumpTensorRef, whole: DumpTensorRef, part: _Part
    ) -> float | None:
        """How many times larger a gradient is than golden's; None where only values tell."""
        factors = self._factors(op)
        if _DATA not in part.shares:  # an expert has the data of all ranks, and their factor
            factors = (1.0, *factors)
        if len(set(factors)) == 1 or own.dtype in _WHOLE_NUMBERS:
            return factors[0]
        ours, theirs = values_of(own), values_of(whole)
        if ours is None or theirs is None:
            return None
        golden = cut(theirs, dict(part.runs))
        factor = min(factors, key=lambda times: distance(ours, golden * times))
        if _DATA in part.shares:
            self.factors.setdefault(self.twins.micro_batches[op.id], factor)
        return factor


def _is_back(op: Op) -> bool:
    return CallName.of(op.name).way in ("backward", "parameters_grad")


def _is_unlike(own: Array, golden: Array) -> bool:
    """Whether *own* is no multiple of *golden* either: a gradient may be wrong by a factor."""
    if own.shape != golden.shape:
        return True
    ours, theirs = (np.nan_to_num(np.asarray(each, np.float64)) for each in (own, golden))
    size = float(np.square(theirs).sum())
    times = float((ours * theirs).sum()) / size if size else 1.0
    return times <= 0.0 or distance(ours, times * theirs) > _UNLIKE


class _Unplaced(NamedTuple):
    """Why a tensor has none in golden to be held against."""

    reason: Reason
    words: str


def _unknown(why: str) -> _Unplaced:
    return _Unplaced(Reason.LAYOUT_UNSUPPORTED, why)


def _addend(why: str) -> _Unplaced:
    return _Unplaced(Reason.ADDEND, f"the rank's addend of golden's: {why}")


class _Choice(NamedTuple):
    """A part that an axis may be, and the share that says so."""

    axis: int
    runs: Runs
    share: str
    is_sure: bool = True


def _size(runs: Runs) -> int:
    return sum(stop - start for start, stop in runs)


def _gathered_orders(share: AxisShare, length: int) -> list[Runs]:
    """The orders of *length* places where a rank has this *share*: as all ranks have them one after
    another, and as they come to it by a ring, from itself on; those of the rules that say so,
    without the order of golden itself."""
    own = share.of(length)
    every = [list(rule.parts(length, _size(own))) for rule in rules()] if own is not None else []
    fitting = [(parts, parts.index(own)) for parts in every if own is not None and own in parts]
    by_turns = [parts[at::-1] + parts[:at:-1] for parts, at in fitting]
    orders = [
        tuple(run for part in parts for run in part)
        for parts in (*(parts for parts, _ in fitting), *by_turns)
    ]
    return [order for order in orders if list(order) != sorted(order)]


def _of_data(
    length: int, data: Mapping[int, AxisShare], shape: tuple[int, ...]
) -> Iterator[tuple[Runs | None, bool]]:
    """The parts of an axis of *length* places that the shares of the *data* may be, of one of its
    axes, or of several that were flattened; and whether axes of the data are that long."""
    for axis, share in data.items():
        is_axis = axis < len(shape) and length == shape[axis]
        if is_axis or not axis:
            yield share.of(length), is_axis
    if data and len(shape) >= 2 and length == prod(shape[:2]):
        inner = data[1].of(shape[1]) if 1 in data else ((0, shape[1]),)
        outer = data[0].of(shape[0]) if 0 in data else ((0, shape[0]),)
        if inner is not None and outer is not None:
            yield within(outer, shape[1], inner), True


def _cut_out(
    whole: DumpTensorRef, part: _Part, own: DumpTensorRef, factor: float | None
) -> DumpTensorRef | None:
    if not part.runs and factor == 1.0:
        return whole
    if whole.statistics is not None or factor is None:
        return None
    size = prod(own.shape or ()) * max(whole.nbytes // max(prod(whole.shape or ()), 1), 1)
    return replace(
        whole,
        shape=own.shape,
        nbytes=size,
        offset=0,
        crc32=None,
        derived=TensorCut(whole, part.runs, factor),
    )


def _with_collectives(graph: ModelGraph) -> frozenset[str]:
    """The calls that are between ranks, or in which such calls are."""
    owners = {body.name: body.owner for body in graph.subgraphs}
    bodies = {op.id: op.subgraph for op in graph.ops}
    reducing: set[str] = set()
    for op in graph.ops:
        if op.attrs.get("kind") != _COLLECTIVE:
            continue
        owner = op.id
        while owner and owner not in reducing:
            reducing.add(owner)
            owner = owners.get(bodies.get(owner, ""), "")
    return frozenset(reducing)
