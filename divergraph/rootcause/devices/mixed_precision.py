"""Devices that compute some ops in float32 and others in 16 bits.

Floors of 16 bits are thousands of times those of float32. The device's graph says which ops
compute in which, if its declared types are those of the dumps; and the ops it declares as float32
must show errors of float32 size before they are judged by that floor.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import ReadOperands
from divergraph.rootcause.devices.arithmetic import ratio_of
from divergraph.rootcause.devices.precision import Precision, half_of
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import SEVERAL, Group, sampled_groups
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from graphstore.model import Comparison, DeviceArithmetic, DType, Op, TensorRef
from graphstore.traverse.reach import reached


@dataclass(frozen=True)
class Arithmetics:
    """The emulations of a run: the ``usual`` one, and the ``other`` one for outputs ``others``.
    ``further`` ones are of operands that some families of matrix ops are known to read."""

    usual: Emulation
    other: Emulation | None = None
    others: frozenset[TensorRef] = field(default_factory=frozenset)
    further: tuple[Emulation, ...] = ()

    @property
    def operands(self) -> ReadOperands:
        """The operand formats of matrix ops."""
        if self.usual.operands or self.other is None:
            return self.usual.operands
        return self.other.operands

    @property
    def remark(self) -> str:
        """The run's note on operand formats; "" if matrix ops read their operands as they are."""
        precision, operands = self.usual.precision, self.usual.operands
        words = precision.name if precision.dtype is None else precision.dtype.value
        return operands.sentence(words) if operands else ""

    def described(self, precision: Precision, *, quantised: bool) -> DeviceArithmetic:
        """The arithmetic as the run keeps it, for a device mostly in *precision*."""
        kept_single = () if self.usual.precision is FP32 else self.others
        return DeviceArithmetic(
            precision.name,
            quantised,
            {family.value: kind.name for family, kind in self.operands.families.items()},
            {kind: approximation.off for kind, approximation in self.usual.approximated.items()},
            tuple(sorted({ref.op for ref in kept_single})),
        )

    def of(self, group: Group) -> Emulation:
        """The emulation of a group."""
        if self.other is None or group.output not in self.others:
            return self.usual
        return self.other

    def coarser(self) -> Arithmetics:
        """For all outputs the one of the two that rounds, where one does."""
        rounding = self.usual if self.other is None or self.usual.precision.rounds else self.other
        return replace(self, usual=rounding, other=None)

    def sharpened(
        self,
        groups: Sequence[Group],
        feeds: Sequence[Mapping[str, Array]],
        references: Sequence[Array | str],
    ) -> list[Array | str]:
        """*references*, with those of exact operand formats in place of others: what such a product
        gives of operands as the device reads them, not rounded any further."""
        outputs = list(references)
        for place, group in enumerate(groups):
            floors = self.of(group)
            ops = [floors.golden.ops[op_id] for op_id in group.ops]
            output = outputs[place]
            if isinstance(output, str) or not floors.operands.exactness(ops, floors.golden):
                continue
            (exact,) = replace(floors, plain=True).emulated([group], [feeds[place]])
            if exact is not None and exact.shape == output.shape:
                outputs[place] = exact
        return outputs

    def instead_of(self, floors: Emulation) -> tuple[Emulation, ...]:
        """All emulations of the run but *floors*."""
        emulations = (self.usual, *([] if self.other is None else [self.other]), *self.further)
        return tuple(emulation for emulation in emulations if emulation is not floors)

    def emulated(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Array | None]:
        """The output of each group on its feeds in its own arithmetic; None if it fails."""
        outputs: list[Array | None] = [None] * len(groups)
        for floors in (self.usual, *([] if self.other is None else [self.other])):
            places = [n for n, group in enumerate(groups) if self.of(group) is floors]
            own_outputs = floors.emulated([groups[n] for n in places], [feeds[n] for n in places])
            for place, value in zip(places, own_outputs, strict=True):
                outputs[place] = value
        return outputs


@dataclass(frozen=True)
class DeclaredTypes:
    """The types *device* computes in, by what its graph declares and its dumps have.

    ``is_declared``: the graph's types are those of the dumps. ``half`` is the 16-bit type that most
    16-bit dumps have, None without any.
    """

    device: OpGraph
    compared: Mapping[TensorRef, Comparison]
    half: Precision | None
    is_declared: bool

    @classmethod
    def of(cls, device: OpGraph, compared: Mapping[TensorRef, Comparison]) -> DeclaredTypes:
        """The types of a *device* graph, held against those of the *compared* dumps."""
        halves = {ref: item.device_dtype for ref, item in compared.items()}
        halves = {ref: kind for ref, kind in halves.items() if _is_half(kind)}
        if not halves:
            return cls(device, compared, None, is_declared=False)
        ((commonest, _),) = Counter(halves.values()).most_common(1)
        agreeing = sum(_is_half(declared_type(device, ref)) for ref in halves)
        half = half_of(commonest)
        return cls(
            device,
            compared,
            half,
            is_declared=agreeing >= calibration.DECLARED_TRUSTED * len(halves),
        )

    def is_single(self, group: Group) -> bool:
        """Whether a group is fed float32, computes in float32 throughout and gives float32."""
        if (
            not self.is_declared
            or group.failure
            or group.is_passthrough is not None
            or not group.feeds
        ):
            return False
        if self.compared[group.output].device_dtype is not DType.FLOAT32:
            return False
        if any(declared_type(self.device, ref) is not DType.FLOAT32 for ref in group.measured):
            return False
        return all(
            all(kind is DType.FLOAT32 for kind in self._kinds(op))
            and not self._reads_made_constant(op)
            for op in self._between(group)
        )

    def is_half(self, group: Group) -> bool:
        """Whether a group reads, computes in or gives 16 bits, or may do so where not declared."""
        dumped = (self.compared[ref].device_dtype for ref in (group.output, *group.measured))
        return any(map(_is_half, dumped)) or self.is_half_inside(group)

    def is_half_inside(self, group: Group) -> bool:
        """Whether a group computes in 16 bits between its dumps, or may do so where not declared:
        the values between its ops were not dumped."""
        ops = list(self._between(group))
        dtypes = [op.computes_in for op in ops]
        if any(map(_is_half, dtypes)):
            return True
        if not self.is_declared:
            return len(ops) > 1 and None in dtypes
        return any(_is_half(kind) for op in ops for kind in self._kinds(op))

    def _between(self, group: Group) -> Iterator[Op]:
        """The device's ops between the measured outputs a group is fed and its own output."""
        stops, device = set(group.measured), self.device

        def before(op: str) -> Iterator[str]:
            makers = (ref.producer for ref in device.inputs(device.ops[op]))
            op_ids = (maker.op for maker in makers if maker is not None and maker not in stops)
            return (
                maker for maker in op_ids if maker in device.ops and not device.is_constant(maker)
            )

        return (device.ops[op] for op in reached([group.output.op], before))

    def _reads_made_constant(self, op: Op) -> bool:
        """Whether a constant of *op* is computed, most likely cast from a rounded one."""
        makers = [ref.producer.op for ref in self.device.inputs(op) if ref.producer is not None]
        return any(
            self.device.is_constant(maker) and self.device.ops[maker].inputs for maker in makers
        )

    def _kinds(self, op: Op) -> Iterator[DType | None]:
        """The declared types of an op's inputs and outputs: floats, or None where unknown."""
        refs = list(self.device.inputs(op))
        producers = (ref.producer for ref in refs if ref.producer is not None)
        for kind in (
            *(declared_type(self.device, ref) for ref in producers),
            *filter(_is_half, (self.device.entry_types.get(ref.tensor) for ref in refs)),
            *(output.dtype for output in op.outputs),
            *filter(_is_half, (op.computes_in,)),
        ):
            if kind is None or _is_half(kind) or kind is DType.FLOAT32:
                yield kind


def borne_out(
    groups: Sequence[Group],
    samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
    single: Emulation,
    usual: Emulation,
    suspect: float,
) -> bool:
    """Whether half of *groups* (of up to 16 that are run) have errors of float32 size: of two a
    fault in one does not outvote the other.

    Not where the *usual* arithmetic explains what *single* leaves of several, or of one if it takes
    short operands to explain the others: these look like sums in 16 bits but where they were
    rounded before they were read.
    """
    ran = list(samples(sampled_groups(groups)))
    ratios = [(sample, ratio_of(sample, single)) for sample in ran]
    pairs = [(sample, ratio) for sample, ratio in ratios if ratio is not None]
    if not pairs or statistics.median_low(ratio for _, ratio in pairs) > suspect:
        return False
    unexplained = [sample for sample, ratio in pairs if ratio > suspect]
    few = 1 if single.operands else SEVERAL
    return len(unexplained) < few or not all(
        (ratio := ratio_of(sample, usual)) is not None and ratio <= suspect
        for sample in unexplained
    )


def _is_half(kind: DType | None) -> bool:
    """Whether this is the element type of an arithmetic that rounds every value."""
    return kind is not None and half_of(kind) is not None


def declared_type(device: OpGraph, ref: TensorRef) -> DType | None:
    """The element type that the device's graph says of an output; None where it says none."""
    op = device.ops.get(ref.op)
    return None if op is None or ref.port >= len(op.outputs) else op.outputs[ref.port].dtype
