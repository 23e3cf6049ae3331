"""What a part is fed, what it should give, and whether what came out is off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from threading import RLock

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.values import is_numeric, relative
from divergraph.submodel.minimize.part_floors import PartFloors
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import DivergraphError, ExecutionError
from graphstore.model import OracleAnswer, PartVerdict, TensorRef


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
        self._floors = PartFloors(parts, precision, self._executor)

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
        made: Mapping[str, Array],
        factor: float,
    ) -> OracleAnswer:
        """Whether what was *made* is off by more than *factor* noise floors."""
        worst: tuple[float, float, str, float] | None = None
        for tensor in part.outputs:
            reference, value = expected[tensor.name], made.get(tensor.name)
            if value is None or not is_numeric(reference) or not is_numeric(value):
                continue
            if value.shape != reference.shape:
                said = f"{tensor.name} has shape {value.shape} instead of {reference.shape}"
                return OracleAnswer(PartVerdict.FAIL, said, math.inf)
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
        said = f"{name} is off by {error:.3g}, {factor:g} noise floors are {limit:.3g}"
        return OracleAnswer(verdict, said, error, limit)

    @property
    def precision(self) -> Precision:
        """The arithmetic noise floors are of."""
        return self._floors.precision

    def _executor(self) -> Executor:
        if self._opened is None:
            self._opened = open_executor(self._parts.sources.golden_path, self._parts.golden)
        return self._opened

    def close(self) -> None:
        """Let go of the golden model."""
        if self._opened is not None:
            self._opened.close()
