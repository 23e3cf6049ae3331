"""The arithmetic the device's ops computed in, found from what the device dumped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import Family, ReadOperands
from divergraph.rootcause.arithmetic.finding import OperandSearch
from divergraph.rootcause.devices.formulas import Approximated
from divergraph.rootcause.devices.functions import find_functions
from divergraph.rootcause.devices.mixed_precision import (
    Arithmetics,
    DeclaredTypes,
    borne_out,
    declared_type,
)
from divergraph.rootcause.devices.precision import Precision, half_of, precision_of, precisions
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.loop_state import unchanged
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tolerances.noise_floor import Emulation
from graphstore.model import TensorRef

MOVING = frozenset(
    (
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "ExpandDims", "Flatten", "Identity"),
        *("Slice", "StridedSlice", "Split", "SplitV", "Unpack", "Gather", "GatherV2", "GatherND"),
        *("GatherElements", "Expand", "Tile", "BroadcastTo", "TransData", "TransposeD"),
        *("DepthToSpace", "SpaceToDepth", "Compress", "ReverseSequence", "Reverse", "ReverseV2"),
    )
)
"""Ops that only move values: their outputs say nothing of what the device computes in."""


@dataclass(frozen=True)
class Deciding:
    """Finds the arithmetics of the groups of a run, unless the user gave them."""

    run: PreparedRun

    @cached_property
    def held(self) -> Mapping[TensorRef, Precision]:
        """The precision whose numbers each tensor that an op computes holds; tensors that do not
        tell are left out."""
        by_output: dict[TensorRef, Precision] = {}
        values = self.run.values
        handed_on = unchanged(self.run.device.graph)
        computed = [
            ref
            for ref in self.run.compared
            if self._type(ref) not in MOVING and ref not in handed_on
        ]
        for ref in computed or self.run.compared:
            value = values.device(ref)
            kind = None if value is None else precision_of(value, values.pairs[ref].device.dtype)
            if kind is not None:
                by_output[ref] = kind
        return by_output

    def precisions(self) -> Counter[Precision]:
        """How many tensors that ops compute are in each precision."""
        return Counter(self.held.values())

    @property
    def _quantises(self) -> bool:
        """Whether more than weights are quantised: then errors are of the quantisers."""
        return bool(self.run.quantisers.by_tensor) and not self.run.quantisers.only_weights

    def _type(self, ref: TensorRef) -> str:
        return self.run.device.ops[ref.op].type

    def arithmetics(self, precision: Precision, groups: Sequence[Group]) -> Arithmetics:
        """The emulations of all groups, for a device that mostly computes in *precision*."""
        if self.run.options.precision is not None or self._quantises:
            return Arithmetics(self._floors(precision, self._operands(precision, groups)))
        # Only dumps of one precision throughout are clear; of others the graph's declared types
        # decide, if the errors bear them out: a wrong float32 floor would blame healthy ops.
        types = DeclaredTypes.of(self.run.device, self.run.runs.compared)
        if precision is FP32:
            return self._with_halves(types, groups)
        operands = self._operands(precision, groups)
        usual = self._floors(precision, operands, self._functions(precision, groups, operands))
        single_groups = [
            group for group in groups if types.is_single(group) or self._is_unrounded(types, group)
        ]
        if not single_groups:
            return Arithmetics(usual)
        operands = self._operands(FP32, single_groups)
        single = self._floors(FP32, operands, self._functions(FP32, single_groups, operands))
        borne = self._borne_out(single_groups, single, usual)
        if not borne:
            return Arithmetics(usual)
        return Arithmetics(usual, single, frozenset(group.output for group in borne))

    def _borne_out(
        self, groups: Sequence[Group], single: Emulation, usual: Emulation
    ) -> list[Group]:
        """Those of *groups* whose kind shows errors of float32 size: a kernel computes all ops of a
        type alike, whatever other kernels do."""
        by_type: dict[str, list[Group]] = {}
        for group in groups:
            by_type.setdefault(self._type(group.output), []).append(group)
        suspect = self.run.options.suspect
        return [
            group
            for alike in by_type.values()
            if borne_out(alike, self.run.runs.run, single, usual, suspect)
            for group in alike
        ]

    def _is_unrounded(self, types: DeclaredTypes, group: Group) -> bool:
        """Whether a group of one op gives float32 numbers that no 16-bit type holds, on a device
        whose graph says nothing of types: it was not rounded, so it was computed in float32."""
        if types.is_declared or group.failure or group.is_passthrough is not None:
            return False
        return (
            bool(group.feeds)
            and self.held.get(group.output) is FP32
            and not types.is_half_inside(group)
        )

    def _functions(
        self, precision: Precision, groups: Sequence[Group], operands: ReadOperands
    ) -> Approximated:
        """The functions that *groups* in this *precision* approximate."""
        exact = replace(self._floors(precision, operands), plain=True)

        def seen(sample: GroupSample) -> GroupSample:
            """*sample* with what weights in fewer bits give: they hide what a function adds."""
            (output,) = exact.emulated([sample.group], [sample.given])
            fits = output is not None and output.shape == sample.reference.shape
            return replace(sample, reference=output) if output is not None and fits else sample

        runs, quantisers = self.run.runs, self.run.quantisers.by_tensor
        return find_functions(
            self.run.golden,
            groups,
            (lambda own_groups: runs.samples(own_groups, seen)) if quantisers else runs.samples,
            lambda functions: self._floors(precision, operands, functions),
        )

    def _with_halves(self, types: DeclaredTypes, groups: Sequence[Group]) -> Arithmetics:
        """Float32, except for the groups that read, compute or give 16 bits.

        What is dumped as float32 may have been computed in 16 bits as well: its values show it.
        """
        half = types.half or self._half_by_values() or self._half_declared()
        everywhere = ReadOperands() if half else self._operands(FP32, groups)
        half = half or _type_of(everywhere)
        rounded = {ref for ref, kind in self.held.items() if kind is half}
        coarse = frozenset(
            group.output
            for group in groups
            if half and (group.output in rounded or types.is_half(group))
        )
        others = [group for group in groups if group.output not in coarse]
        operands = everywhere or self._operands(FP32, others)
        functions = self._functions(FP32, others, operands)
        usual = self._floors(FP32, operands, functions)
        kinds = dict.fromkeys(operands.families.values())
        further = tuple(
            self._floors(FP32, ReadOperands(dict.fromkeys(Family, kind)), functions)
            for kind in kinds
        )
        if half is None or not coarse:
            return Arithmetics(usual, further=further)
        return Arithmetics(usual, self._floors(half, ReadOperands()), coarse, further)

    def _half_by_values(self) -> Precision | None:
        """The 16-bit precision of the most tensors; None where so few are in one that they may be
        by a fault."""
        halves = Counter(kind for kind in self.held.values() if kind.rounds)
        commonest = halves.most_common(1)
        return commonest[0][0] if commonest and commonest[0][1] >= calibration.ENOUGH_OPS else None

    def _half_declared(self) -> Precision | None:
        """The 16-bit precision that the graph declares of a tensor whose values are in it, though
        its dump was widened."""
        for ref, kind in self.held.items():
            if kind.rounds and half_of(declared_type(self.run.device, ref)) is kind:
                return kind
        return None

    def _floors(
        self, precision: Precision, operands: ReadOperands, functions: Approximated | None = None
    ) -> Emulation:
        run, memory = self.run, self.run.options.memory // 2
        approximated = functions or {}
        return Emulation(
            run.executor, run.golden, precision, memory, run.quantisers, operands, approximated
        )

    def _operands(self, precision: Precision, groups: Sequence[Group]) -> ReadOperands:
        """The operand formats of matrix ops: the user's, or those their errors show."""
        if self.run.options.operands is not None:
            return ReadOperands(dict.fromkeys(Family, self.run.options.operands))
        if self.run.options.precision is not None or self._quantises:
            return ReadOperands()
        search = OperandSearch(
            self.run.golden,
            self.run.runs.samples,
            lambda operands: self._floors(precision, operands),
            self.run.options.suspect,
        )
        return search.found(groups)


def _type_of(operands: ReadOperands) -> Precision | None:
    """The 16-bit precision that is the type of some matrix ops' operands: the device has it, so
    single tensors may be held in it."""
    names = {kind.name for kind in operands.families.values()}
    return next(
        (precision for precision in precisions() if precision.rounds and precision.name in names),
        None,
    )


def coarsest(counts: Mapping[Precision, int]) -> Precision:
    """The coarsest precision of more than ``PRECISION_SHARE`` of the tensors; float32 if none is.

    What fits a coarse type fits the finer ones, too, so counts of finer types prove nothing.
    """
    total = sum(counts.values())
    for precision in precisions():
        if precision.rounds and counts.get(precision, 0) > calibration.PRECISION_SHARE * total:
            return precision
    return FP32
