"""The inputs of a part, its expected outputs, and whether its actual outputs are off."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock, RLock

import numpy as np

from divergraph.execute.contract import DEFAULT_MEMORY, Array, Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import format_named
from divergraph.rootcause.arithmetic.families import Family, ReadOperands
from divergraph.rootcause.devices.constants import DeviceConstants
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.formulas import Approximated, Approximation
from divergraph.rootcause.devices.precision import Precision, precision_named
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS, Quantisers, find_quantisers
from divergraph.rootcause.groups.groups import Feed, Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import is_numeric, relative
from divergraph.submodel.minimize.oracle import Part
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import DivergraphError, ExecutionError
from graphstore.model import DeviceArithmetic, OracleAnswer, PartVerdict, TensorRef


class NoValueError(Exception):
    """A value that is needed was not dumped, or the reference does not run."""


class PartValues:
    """Values of parts of one run. Calls from several threads wait for each other.

    *precision* None: what the analysis found the device to compute in.
    """

    def __init__(self, parts: RunParts, precision: Precision | None = None) -> None:
        self._parts = parts
        self._lock = RLock()
        self._opened: Executor | None = None
        self._floors = PartEmulation(parts, precision, self._executor)

    def feeds(self, part: Selection, variant: Variant) -> dict[str, Array]:
        """The inputs of *part*, by golden tensor name.

        Raises:
            NoValueError: the part is refused, or an input was not dumped.
        """
        if part.refused:
            raise NoValueError(part.refused[0].sentence)
        with self._lock:
            return {tensor.name: self._value(tensor, variant) for tensor in part.inputs}

    def _value(self, tensor: BoundaryTensor, variant: Variant) -> Array:
        try:
            value = (
                self._parts.device_value(tensor.key)
                if variant is Variant.DEVICE and not tensor.frozen
                else self._parts.golden_value(tensor.key)
            )
        except DivergraphError as error:
            raise NoValueError(error.what) from error
        if value is None:
            raise NoValueError(f"the device's value of {tensor.name} was not dumped")
        return self._typed(tensor, value)

    def _typed(self, tensor: BoundaryTensor, value: Array) -> Array:
        wanted = None if tensor.dtype is None else tensor.dtype.numpy
        if wanted is None or value.dtype == wanted or value.dtype.kind != np.dtype(wanted).kind:
            return value
        return value.astype(wanted)

    def expected(
        self, part: Selection, variant: Variant, feeds: Mapping[str, Array]
    ) -> dict[str, Array]:
        """What the golden ops give for *feeds*: dumped, or run here.

        Raises:
            NoValueError: neither is there.
        """
        with self._lock:
            if variant is Variant.GOLDEN and all(tensor.dumped for tensor in part.outputs):
                return {tensor.name: self._value(tensor, variant) for tensor in part.outputs}
            names = tuple(tensor.name for tensor in part.outputs)
            subgraph = RunnableSubgraph("expected", tuple(feeds), names)
            try:
                (result,) = self._executor().run_subgraphs([subgraph], lambda _: feeds)
            except ExecutionError as error:
                raise NoValueError(f"the golden ops do not run here: {error.what}") from error
            if result.failure:
                raise NoValueError(f"the golden ops do not run: {result.failure}")
            return dict(result.values)

    def judged(
        self,
        part: Selection,
        feeds: Mapping[str, Array],
        expected: Mapping[str, Array],
        outputs: Mapping[str, Array],
        factor: float,
    ) -> OracleAnswer:
        """Whether *outputs* are off by more than *factor* noise floors."""
        worst: tuple[float, float, str, float] | None = None
        for tensor in part.outputs:
            reference, value = expected[tensor.name], outputs.get(tensor.name)
            if value is None or not is_numeric(reference) or not is_numeric(value):
                continue
            if value.shape != reference.shape:
                detail = f"{tensor.name} has shape {value.shape} instead of {reference.shape}"
                return OracleAnswer(PartVerdict.FAIL, detail, math.inf)
            error = relative(value, reference)
            assert tensor.ref is not None
            with self._lock:
                floor = self._floors.floor(part, tensor.ref, feeds, reference)
            limit = factor * floor
            over = error / limit
            if worst is None or over > worst[0]:
                worst = over, error, tensor.name, limit
        if worst is None:
            return OracleAnswer(PartVerdict.UNKNOWN, "none of its outputs can be compared")
        over, error, name, limit = worst
        verdict = PartVerdict.FAIL if over > 1.0 else PartVerdict.PASS
        detail = f"{name} is off by {error:.3g}, {factor:g} noise floors are {limit:.3g}"
        return OracleAnswer(verdict, detail, error, limit)

    @property
    def precision(self) -> Precision:
        """The arithmetic whose noise floors are used."""
        return self._floors.precision

    def _executor(self) -> Executor:
        if self._opened is None:
            self._opened = open_executor(self._parts.sources.golden_path, self._parts.golden)
        return self._opened

    def close(self) -> None:
        """Let go of the golden model."""
        if self._opened is not None:
            self._opened.close()


class RunningOracle(ABC):
    """An oracle that runs something in the place of a part and holds it against the golden ops."""

    variants = (Variant.GOLDEN, Variant.DEVICE)

    def __init__(self, parts: RunParts, factor: float, precision: Precision | None = None) -> None:
        self._parts = parts
        self._factor = factor
        self._values = PartValues(parts, precision)
        self._lock = Lock()

    @abstractmethod
    def run(self, part: Selection, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """What it makes of *feeds*, by golden tensor name.

        Raises:
            NoValueError: it does not run.
        """

    def judge(self, part: Part, variant: Variant) -> OracleAnswer:
        """Run *part* on its inputs and compare with what the golden ops make of them."""
        selection = part.selection
        try:
            feeds = self._values.feeds(selection, variant)
            expected = self._values.expected(selection, variant, feeds)
            outputs = self.run(selection, feeds)
        except NoValueError as error:
            return OracleAnswer(PartVerdict.UNKNOWN, str(error))
        return self._values.judged(selection, feeds, expected, outputs, self._factor)

    def cancel(self) -> None:  # noqa: B027 - there is nothing to do
        """One call does not take long."""

    def close(self) -> None:
        """Let go of the golden model."""
        self._values.close()


# How far healthy arithmetic may be off in a part is how far the same part on the same inputs is,
# run op by op in the emulated arithmetic of the device: no tolerance has to be chosen. What that
# arithmetic is, the root-cause analysis found and the run keeps.
class PartEmulation:
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
        precision_name = self._found.precision
        return precision_named(precision_name) if precision_name else FP32

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
        groups = [ops for ops in on_device if ops]
        return bool(groups) and all(self._kept.intersection(ops) for ops in groups)

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(self._found.fp32_ops)

    @cached_property
    def _usual(self) -> Emulation | None:
        return self._made(self.precision)

    @cached_property
    def _single(self) -> Emulation | None:
        return self._made(FP32)

    def _made(self, precision: Precision) -> Emulation | None:
        """None where the golden model does not run here."""
        try:
            executor = self._executor()
        except ExecutionError:
            return None
        single = precision is FP32
        operands = self._taken(single=single)
        functions = self._functions if single else {}
        graph, quantisers = OpGraph(self._parts.golden), self._quantisers
        return Emulation(
            executor, graph, precision, DEFAULT_MEMORY, quantisers, operands, functions
        )

    def _taken(self, *, single: bool) -> ReadOperands:
        """The operand formats of the device's matrix ops: of its 16-bit ops only scaled ones, since
        the others stand for float32."""
        operands = {} if self._given is not None else self._found.operands
        formats = {Family(name): format_named(kind) for name, kind in operands.items()}
        return ReadOperands({key: kind for key, kind in formats.items() if single or kind.scaled})

    @cached_property
    def _functions(self) -> Approximated:
        """How the device approximates functions in float32."""
        functions = {} if self._given is not None else self._found.functions
        return {kind: Approximation.told(kind, off) for kind, off in functions.items()}

    @cached_property
    def _quantisers(self) -> Quantisers:
        data = self._parts.data
        if self._given is not None:
            return NO_QUANTISERS
        with DeviceConstants(self._parts.sources.device_path, data.device) as constants:
            return find_quantisers(data, data.comparisons, constants.value)
