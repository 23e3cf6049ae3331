"""How far healthy arithmetic may be off in a part: its noise floor.

It is that of the same part on the same inputs, run op by op in the device's arithmetic
imitated, so no tolerance has to be chosen. What that arithmetic is, the root-cause analysis
found and the run keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from divergraph.execute.contract import DEFAULT_MEMORY, Array, Executor
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.constants import DeviceConstants
from divergraph.rootcause.devices.functions import Approximated
from divergraph.rootcause.devices.operand_precision import Family, Operands, Taken
from divergraph.rootcause.devices.precision import Precision, precision_named
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS, Quantisers, find_quantisers
from divergraph.rootcause.groups.groups import Feed, Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Floors, floor_of
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import Selection
from graphstore.errors import ExecutionError
from graphstore.model import DeviceArithmetic, TensorRef


class PartFloors:
    """Noise floors of parts of one run. Not for several threads at once.

    *precision* None: what the analysis found the device to compute in. *executor* gives what
    runs the golden model.
    """

    def __init__(
        self, parts: RunParts, precision: Precision | None, executor: Callable[[], Executor]
    ) -> None:
        self._parts = parts
        self._given = precision
        self._executor = executor

    def floor(
        self, part: Selection, output: TensorRef, feeds: Mapping[str, Array], reference: Array
    ) -> float:
        """The relative error arithmetic explains in an *output* of *part* that should be
        *reference*."""
        chosen = tuple(op for op in part.chosen if not self._parts.selector.ops[op].subgraph)
        group = Group(output, output, chosen, tuple(Feed(name) for name in feeds))
        single = self._stays_single(part)
        floors = self._single if single else self._usual
        precision = FP32 if single else self.precision
        emulated = None
        if floors is not None:
            (emulated,) = floors.emulated([group], [feeds])
        floor = floor_of(reference, emulated, precision, len(chosen))
        if precision is INT8 and not self._quantisers.by_tensor:
            return max(floor, calibration.HIDDEN_BODIES)
        return floor

    @cached_property
    def precision(self) -> Precision:
        """The arithmetic that is imitated."""
        if self._given is not None:
            return self._given
        found = self._found.precision
        return precision_named(found) if found else FP32

    @property
    def _found(self) -> DeviceArithmetic:
        """What the analysis of the run found."""
        return self._parts.data.run.analysis.arithmetic

    def _stays_single(self, part: Selection) -> bool:
        """Whether all of *part* is of ops that stay in float32 on a device of 16 bits."""
        if self._given is not None or not self._kept:
            return False
        # Of what stands for an op, casts behind it may give 16 bits.
        on_device = [self._parts.stands_for.get(op, ()) for op in part.chosen]
        known = [ops for ops in on_device if ops]
        return bool(known) and all(self._kept.intersection(ops) for ops in known)

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(self._found.fp32_ops)

    @cached_property
    def _usual(self) -> Floors | None:
        return self._made(self.precision)

    @cached_property
    def _single(self) -> Floors | None:
        return self._made(FP32)

    def _made(self, precision: Precision) -> Floors | None:
        """None where the golden model does not run here."""
        try:
            executor = self._executor()
        except ExecutionError:
            return None
        single = precision is FP32
        taken = self._taken if single else {}
        functions = self._functions if single else {}
        graph, quantisers = OpGraph(self._parts.golden), self._quantisers
        return Floors(executor, graph, precision, DEFAULT_MEMORY, quantisers, taken, functions)

    @cached_property
    def _taken(self) -> Taken:
        """How the device's matrix ops take float32 operands."""
        found = {} if self._given is not None else self._found.operands
        return {Family(name): Operands(kind) for name, kind in found.items()}

    @cached_property
    def _functions(self) -> Approximated:
        """How far functions are off that the device approximates in float32."""
        return {} if self._given is not None else self._found.functions

    @cached_property
    def _quantisers(self) -> Quantisers:
        data = self._parts.data
        if self._given is not None:
            return NO_QUANTISERS
        with DeviceConstants(self._parts.sources.device_path, data.device) as constants:
            return find_quantisers(
                data.device, data.golden, data.comparisons, data.links, constants.value
            )
