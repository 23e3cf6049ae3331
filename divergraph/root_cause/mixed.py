"""Ops that stay in float32 on a device that computes the others in 16 bits.

Their floors are those of float32, thousands of times lower. Which ops these are is in the
device's graph, if it declares types at all as they are dumped; and the errors of these ops
must bear it out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.execution.contract import Array
from divergraph.root_cause.arithmetic import Sample, ratio_of
from divergraph.root_cause.floors import Floors
from divergraph.root_cause.groups import Group
from divergraph.root_cause.op_graph import OpGraph
from graphstore.model import Comparison, DType, Op, TensorRef

_TRUSTED = 0.9
_LOOKED_AT = 16
_HALF = frozenset({DType.FLOAT16, DType.BFLOAT16})


@dataclass(frozen=True)
class Arithmetics:
    """The floors of a run: ``usual`` ones, and those of the outputs that are float32 ``still``."""

    usual: Floors
    single: Floors
    still: frozenset[TensorRef] = field(default_factory=frozenset)

    def of(self, group: Group) -> Floors:
        """The floors of a group."""
        return self.single if group.output in self.still else self.usual

    def emulated(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Array | None]:
        """What each group makes of its feeds in its arithmetic; None if it fails."""
        found: list[Array | None] = [None] * len(groups)
        for floors in (self.usual, self.single):
            places = [n for n, group in enumerate(groups) if self.of(group) is floors]
            made = floors.emulated([groups[n] for n in places], [feeds[n] for n in places])
            for place, value in zip(places, made, strict=True):
                found[place] = value
        return found


def declared_single(
    device: OpGraph, groups: Iterable[Group], compared: Mapping[TensorRef, Comparison]
) -> list[Group]:
    """The groups whose device op is all float32 by a graph that tells types as they are dumped."""
    halves = [ref for ref, item in compared.items() if item.device_dtype in _HALF]
    agreeing = sum(_declared(device, ref) in _HALF for ref in halves)
    if not halves or agreeing < _TRUSTED * len(halves):
        return []
    return [
        group
        for group in groups
        if not group.failure
        and group.passes_on is None
        and group.feeds
        and compared[group.output].device_dtype is DType.FLOAT32
        and all(kind is DType.FLOAT32 for kind in _kinds(device, device.ops[group.output.op]))
        and all(_declared(device, ref) is DType.FLOAT32 for ref in group.measured)
        and not _reads_made_constant(device, device.ops[group.output.op])
    ]


def borne_out(
    groups: Sequence[Group],
    samples: Callable[[Sequence[Group]], Iterable[Sample]],
    single: Floors,
    suspect: float,
) -> bool:
    """Whether the errors of *groups* are those of float32, in most of those looked at."""
    step = -(-len(groups) // _LOOKED_AT) or 1
    ratios = [ratio_of(sample, single) for sample in samples(groups[::step])]
    known = [ratio for ratio in ratios if ratio is not None]
    return bool(known) and statistics.median(known) <= suspect


def _reads_made_constant(device: OpGraph, op: Op) -> bool:
    """Whether a constant of *op* is computed, most likely cast from a rounded one."""
    makers = [ref.producer.op for ref in device.inputs(op) if ref.producer is not None]
    return any(device.is_constant(each) and device.ops[each].inputs for each in makers)


def _declared(device: OpGraph, ref: TensorRef) -> DType | None:
    op = device.ops.get(ref.op)
    return None if op is None or ref.port >= len(op.outputs) else op.outputs[ref.port].dtype


def _kinds(device: OpGraph, op: Op) -> Iterator[DType | None]:
    """The declared types of what an op takes and gives, where these are of real numbers."""
    taken = (ref.producer for ref in device.inputs(op) if ref.producer is not None)
    for kind in (*(_declared(device, ref) for ref in taken), *(each.dtype for each in op.outputs)):
        if kind is None or kind in _HALF or kind is DType.FLOAT32:
            yield kind
