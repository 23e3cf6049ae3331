"""What a part is fed, what it should give, and how far healthy arithmetic may be off.

The noise floor is that of the same part on the same inputs, run op by op in the device's
arithmetic imitated, so no tolerance has to be chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from threading import RLock

import numpy as np

from divergraph.execution.contract import DEFAULT_MEMORY, Array, Executor, Piece
from divergraph.execution.installed import open_executor
from divergraph.root_cause.device_constants import DeviceConstants
from divergraph.root_cause.floors import QUANTISED_UNSEEN, Floors, floor_of
from divergraph.root_cause.groups import Feed, Group
from divergraph.root_cause.op_graph import OpGraph
from divergraph.root_cause.precision import Precision
from divergraph.root_cause.quantisers import NO_QUANTISERS, Quantisers, find_quantisers
from divergraph.root_cause.values import is_numeric, relative
from divergraph.submodels.minimize.verdicts import Judgement, Variant, Verdict
from divergraph.submodels.run_parts import RunParts
from divergraph.submodels.selection import BoundaryTensor, Selection
from graphstore.errors import DivergraphError, InputError
from graphstore.model import TensorRef


class NoValueError(Exception):
    """A value that is needed was not dumped, or the reference does not run."""


class PartValues:
    """Values of parts of one run. Calls from several threads wait for each other.

    *precision* None: what the analysis found the device to compute in.
    """

    def __init__(self, parts: RunParts, precision: Precision | None = None) -> None:
        self._parts = parts
        self._given = precision
        self._lock = RLock()
        self._opened: Executor | None = None

    def feeds(self, part: Selection, variant: Variant) -> dict[str, Array]:
        """What goes into *part*, by golden tensor name.

        Raises:
            NoValueError: the part is refused, or an input was not dumped.
        """
        if part.refused:
            raise NoValueError(part.refused[0].sentence)
        with self._lock:
            return {tensor.name: self._value(tensor, variant) for tensor in part.inputs}

    def _value(self, tensor: BoundaryTensor, variant: Variant) -> Array:
        key: TensorRef | str = tensor.name if tensor.ref is None else tensor.ref
        try:
            found = (
                self._parts.device_value(key)
                if variant is Variant.DEVICE and not tensor.frozen
                else self._parts.golden_value(key)
            )
        except DivergraphError as error:
            raise NoValueError(error.what) from error
        if found is None:
            raise NoValueError(f"the device's value of {tensor.name} was not dumped")
        return self._typed(tensor, found)

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
            piece = Piece("expected", tuple(feeds), names)
            (result,) = self._executor.run_pieces([piece], lambda _: feeds)
            if result.failure:
                raise NoValueError(f"the golden ops do not run: {result.failure}")
            return dict(result.values)

    def judged(
        self,
        part: Selection,
        feeds: Mapping[str, Array],
        expected: Mapping[str, Array],
        made: Mapping[str, Array],
        factor: float,
    ) -> Judgement:
        """Whether what was *made* is off by more than *factor* noise floors."""
        worst: tuple[float, float, str, float] | None = None
        for tensor in part.outputs:
            reference, value = expected[tensor.name], made.get(tensor.name)
            if value is None or not is_numeric(reference) or not is_numeric(value):
                continue
            if value.shape != reference.shape:
                said = f"{tensor.name} has shape {value.shape} instead of {reference.shape}"
                return Judgement(Verdict.FAIL, said, math.inf)
            error = relative(value, reference)
            limit = factor * self._floor(part, tensor, feeds, reference)
            over = error / limit
            if worst is None or over > worst[0]:
                worst = over, error, tensor.name, limit
        if worst is None:
            return Judgement(Verdict.UNKNOWN, "none of its outputs can be compared")
        over, error, name, limit = worst
        verdict = Verdict.FAIL if over > 1.0 else Verdict.PASS
        said = f"{name} is off by {error:.3g}, {factor:g} noise floors are {limit:.3g}"
        return Judgement(verdict, said, error, limit)

    def _floor(
        self,
        part: Selection,
        tensor: BoundaryTensor,
        feeds: Mapping[str, Array],
        reference: Array,
    ) -> float:
        assert tensor.ref is not None
        chosen = [op for op in part.chosen if not self._parts.selector.ops[op].subgraph]
        group = Group(tensor.ref, tensor.ref, tuple(chosen), tuple(Feed(name) for name in feeds))
        emulated: Array | None = None
        with self._lock:
            if self._runs:
                (emulated,) = self._floors.emulated([group], [feeds])
        floor = floor_of(reference, emulated, self.precision, len(chosen))
        if self.precision is Precision.INT8 and not self._quantisers.by_tensor:
            return max(floor, QUANTISED_UNSEEN)
        return floor

    @cached_property
    def precision(self) -> Precision:
        """The arithmetic that is imitated."""
        if self._given is not None:
            return self._given
        words = str(self._parts.data.run.analysis.get("precision", "")).replace(",", " ").split()
        known = [word for word in words if word in {each.value for each in Precision}]
        return Precision(known[0]) if known else Precision.FP32

    @cached_property
    def _runs(self) -> bool:
        try:
            return self._executor is not None
        except InputError:
            return False

    @property
    def _executor(self) -> Executor:
        if self._opened is None:
            self._opened = open_executor(self._parts.sources.golden_path, self._parts.golden)
        return self._opened

    @cached_property
    def _floors(self) -> Floors:
        graph = OpGraph(self._parts.golden)
        return Floors(self._executor, graph, self.precision, DEFAULT_MEMORY, self._quantisers)

    @cached_property
    def _quantisers(self) -> Quantisers:
        data = self._parts.data
        if self._given is not None:
            return NO_QUANTISERS
        with DeviceConstants(self._parts.sources.device_path, data.device) as constants:
            return find_quantisers(
                data.device, data.golden, data.comparisons, data.links, constants.value
            )

    def close(self) -> None:
        """Let go of the golden model."""
        if self._opened is not None:
            self._opened.close()
