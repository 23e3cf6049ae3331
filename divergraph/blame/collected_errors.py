"""The introduced errors of a run, collected for blame as they are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from divergraph.blame.outputs import tensor_names
from divergraph.blame.quantised_reads import NO_READINGS, Readings, find_readings, looked_through
from divergraph.blame.sample import Introduced
from divergraph.execute.contract import Array, Executor
from divergraph.jobs.progress import Progress
from divergraph.rootcause.core import split_run
from divergraph.rootcause.devices.constants import DeviceConstants
from divergraph.rootcause.devices.precision import Precision, precision_named, precision_of
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.groups.group_reruns import OpVerdict
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunInputs, RunSources
from divergraph.rootcause.tolerances.noise_floor import Emulation
from graphstore.contract import RunData

_NOTHING = 1e-6
"""Relative to the largest value: what adding in another order changes."""


@dataclass
class Collected:
    """Collects introduced errors; the largest are kept, within *memory* bytes."""

    names: Mapping[str, str]
    memory: int
    wanted: frozenset[str]
    precision: Precision | None = None
    """The precision of the device, for tensors whose values do not show one."""
    quantised: Emulation | None = None
    """Runs groups with quantised operands."""
    readings: Readings = NO_READINGS
    fed_otherwise: frozenset[str] = frozenset()
    """Device ops whose errors are those of an input that golden was fed otherwise."""
    outputs: dict[str, Array] = field(default_factory=dict)
    _found: dict[str, Introduced] = field(default_factory=dict)
    _errors: dict[str, Array] = field(default_factory=dict)
    _roundings: dict[str, Array] = field(default_factory=dict)
    _beyond: dict[str, Array] = field(default_factory=dict)
    _reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _steps: set[tuple[str, str | None]] = field(default_factory=set)
    left_out: list[str] = field(default_factory=list)
    """Tensors whose errors did not fit."""

    def see(self, judged: OpVerdict) -> None:
        """Keep the error of one device output."""
        group, split = judged.group, judged.split
        self._taken.update(feed.tensor for feed in group.feeds if feed.device is not None)
        tensor = self.names.get(str(group.golden), "")
        if tensor in self.wanted and judged.device.dtype.kind == "f":
            shaped = np.asarray(judged.device).reshape(judged.golden.shape)
            self.outputs[tensor] = shaped  # of several, the last: what leaves the device
        if not tensor or not split.introduced or judged.device.dtype.kind not in "fiu":
            return
        if group.output.op in self.fed_otherwise:
            return
        error = _where_golden_is_open(
            judged, _finite_difference(judged.device, judged.reference, judged.reference)
        )
        # One golden tensor may be several on the device: computed, then quantised or cast.
        # Their errors add up, but equal copies of one tensor count once.
        step = (tensor, None if group.is_passthrough is None else str(group.is_passthrough))
        if step in self._steps:
            return
        self._steps.add(step)
        self._note_readings(tensor, judged, error)
        if tensor in self._errors:
            error = error + self._errors[tensor]
        self._errors[tensor] = error
        self._note_rounding(tensor, judged)
        introduced = self._found.get(tensor)
        if introduced is None or split.introduced > introduced.error:
            self._found[tensor] = Introduced(
                op=group.output.op,
                port=group.output.port,
                tensor=tensor,
                group=group.ops or (introduced.group if introduced else ()),
                error=split.introduced,
                suspicion=split.suspicion or 0.0,
                values=partial(self._errors.__getitem__, tensor),
                handed_on=partial(self._roundings.get, tensor),
                beyond=partial(self._beyond.get, tensor),
            )
        while self._held() > self.memory:
            smallest = min(self._found, key=lambda name: self._found[name].error)
            del self._found[smallest], self._errors[smallest]
            self.left_out.append(smallest)
            self._roundings.pop(smallest, None)
            self._beyond.pop(smallest, None)

    def _note_rounding(self, tensor: str, judged: OpVerdict) -> None:
        """Keep what an exact result still loses when it is rounded to the device's own type."""
        precision = precision_of(judged.device, None) or self.precision
        if judged.device.dtype == np.float16:
            precision = FP16
        if precision is None or not precision.rounds:
            return
        reference = np.asarray(judged.reference, np.float32)
        with np.errstate(all="ignore"):
            lost = precision.rounded(reference) - reference
        lost = np.where(np.isfinite(reference), lost, np.float32(0))
        self._roundings[tensor] = _where_golden_is_open(judged, lost)

    def _note_readings(self, tensor: str, judged: OpVerdict, error: Array) -> None:
        """Split the *error* of an output into the part due to quantised operands and the rest."""
        golden = self.readings.makers
        reads = tuple(golden[op_id] for op_id in judged.group.ops if op_id in golden)
        beyond = error
        if reads and self.quantised is not None:
            (values,) = self.quantised.emulated([judged.group], [judged.inputs])
            if values is None or values.size != error.size:
                reads = ()
            else:
                beyond = _finite_difference(
                    judged.device, values.reshape(error.shape), judged.reference
                )
        self._reads[tensor] = (*self._reads.get(tensor, ()), *reads)
        before = self._beyond.get(tensor)
        if before is not None:
            self._beyond[tensor] = before + beyond
        elif np.any(np.abs(beyond) > _NOTHING * np.max(np.abs(judged.device), initial=0.0)):
            self._beyond[tensor] = beyond

    def _held(self) -> int:
        arrays = (*self._errors.values(), *self._roundings.values(), *self._beyond.values())
        return sum(array.nbytes for array in arrays)

    def items(self) -> list[Introduced]:
        """The errors that reach another group or an output. Others are contained in the error of a
        later output whose group spans their tensor."""
        counted = self._taken | self.wanted
        introduced = [item for item in self._found.values() if item.tensor in counted]
        return [replace(item, reads=self._reads.get(item.tensor, ())) for item in introduced]


def _where_golden_is_open(judged: OpVerdict, error: Array) -> Array:
    """*error* with 0 where golden is exactly 0 and the reference is not: there an earlier op opened
    a gate, such as a Relu. An exact 0 has no rounding error, and adding one would open the gates of
    gradients, too."""
    golden = judged.golden.reshape(judged.reference.shape)
    return np.where((golden == 0) & (judged.reference != 0), np.float32(0), error)


def _finite_difference(device: Array, expected: Array, reference: Array) -> Array:
    """device - expected; 0 where the *reference* is not finite because of its inputs, or was
    excluded: the op does not make that difference."""
    with np.errstate(all="ignore"):
        error = np.subtract(device, expected, dtype=np.float32)
    return np.where(np.isfinite(reference) & np.isfinite(expected), error, np.float32(0))


def collect(
    data: RunData,
    sources: RunSources,
    executor: Executor,
    wanted: frozenset[str],
    options: RootCauseOptions,
    progress: Progress,
) -> Collected:
    """The errors introduced in a run, by splitting the error of everything that was compared."""
    precision_name = data.run.analysis.arithmetic.precision
    precision = precision_named(precision_name) if precision_name else None
    names = tensor_names(data.golden)
    with DeviceConstants(sources.device_path, data.device) as constants:
        readings = find_readings(data, constants.value)
        graph, kind = OpGraph(data.golden), INT8
        floors = Emulation(executor, graph, kind, options.memory, readings.quantisers, plain=True)
        unlike = frozenset(
            op for mismatch in data.run.analysis.mismatches for op in mismatch.seen_at
        )
        memory = options.memory // 2
        collected = Collected(names, memory, wanted, precision, floors, readings, unlike)
        inputs = RunInputs(data, sources, looked_through(data, readings), constants.value)
        split_run(inputs, executor, options, progress, collected.see)
    return collected
