"""A run prepared for root-cause analysis: its graphs, values and groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from divergraph.execute.contract import Executor
from divergraph.graphs.pairing import Pair
from divergraph.rootcause import calibration
from divergraph.rootcause.calls_alone import confirmed, is_recorded, standing_alone
from divergraph.rootcause.devices.dynamic_ops import with_dynamic
from divergraph.rootcause.devices.held_weights.held_integers import with_held
from divergraph.rootcause.devices.precision import fits_half
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.devices.quantisers import (
    DEQUANTISING,
    RANGES,
    Quantisers,
    find_quantisers,
    hides_bodies,
)
from divergraph.rootcause.devices.seen_grids import with_seen_grids
from divergraph.rootcause.graph_inputs import entry_error
from divergraph.rootcause.groups.group_runs import GroupRuns
from divergraph.rootcause.groups.groups import Group, GroupCutter
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunInputs
from divergraph.rootcause.shape_metrics import is_reshaped
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.values.run_values import RunValues
from graphstore.model import Comparison, TensorIO, TensorRef


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """Both graphs, the values of what was ``compared``, and what runs groups of golden ops."""

    inputs: RunInputs
    executor: Executor
    options: RootCauseOptions
    golden: OpGraph
    device: OpGraph
    values: RunValues
    compared: Mapping[TensorRef, Comparison]
    runs: GroupRuns
    quantisers: Quantisers
    unfit: Mapping[TensorRef, Comparison] = field(default_factory=dict)
    """Outputs that were dumped in another shape than golden's, of as many elements perhaps: then
    they are compared, too."""
    misshapen: frozenset[TensorRef] = frozenset()
    """Those of ``unfit`` that the ops behind them are run on, as they are."""
    recorded: bool = False
    """Whether the ops are recorded calls, each of which stands alone."""

    @classmethod
    def of(cls, inputs: RunInputs, executor: Executor, options: RootCauseOptions) -> PreparedRun:
        """The run with all outputs whose values both sides dumped. The cache of values gets a
        quarter of the memory; the rest is for what running the groups needs."""
        recorded = is_recorded(inputs.data)
        if recorded:
            inputs = standing_alone(inputs)
        outputs = {
            TensorRef(item.op, item.port): item
            for item in inputs.comparisons
            if item.io is TensorIO.OUTPUT and item.compared and item.shape is not None
            if not item.misshapen
        }
        pairs = {
            TensorRef(pair.op.id, pair.port): pair
            for pair in inputs.sources.pairs
            if pair.io is TensorIO.OUTPUT
            and pair.device.statistics is None
            and pair.golden.statistics is None
        }
        golden, device = OpGraph(inputs.data.golden), OpGraph(inputs.data.device)
        compared = {
            ref: item for ref, item in outputs.items() if ref in pairs and _alike(pairs[ref])
        }
        unfit = {
            TensorRef(item.op, item.port): item
            for item in inputs.comparisons
            if item.io is TensorIO.OUTPUT and item.golden is not None and item.misshapen
            if TensorRef(item.op, item.port) in pairs
        } | {ref: item for ref, item in compared.items() if is_reshaped(pairs[ref].tensors)}
        values = RunValues(
            {ref: pair.tensors for ref, pair in pairs.items()},
            {ref: item.shape for ref, item in compared.items() if item.shape is not None},
            inputs.sources.golden_dump,
            inputs.sources.device_dump,
            options.memory // 4,
        )
        runs = GroupRuns(executor, golden, values, compared, options.memory)
        known_quantisers = find_quantisers(inputs.data, inputs.comparisons, inputs.device_constant)
        with_constants = with_held(known_quantisers, inputs.data, inputs.comparisons)
        known_quantisers = with_dynamic(
            with_constants, inputs.data, inputs.comparisons, inputs.device_constant
        )
        quantisers = with_seen_grids(known_quantisers, golden, compared, values)
        return cls(
            *(inputs, executor, options, golden, device, values, compared, runs, quantisers, unfit),
            recorded=recorded,
        )

    def without(self, outputs: Collection[TensorRef]) -> PreparedRun:
        """The run as if the device had not dumped *outputs*."""
        compared = {ref: item for ref, item in self.compared.items() if ref not in outputs}
        run = replace(self, compared=compared, runs=replace(self.runs, assumed={}))
        return run.with_misshapen(self.misshapen - set(outputs))

    def with_misshapen(self, outputs: Collection[TensorRef]) -> PreparedRun:
        """The run with *outputs* of ``unfit`` among what ops are run on."""
        seen = frozenset(outputs)
        values = self.values.as_dumped(seen)
        compared = {ref: item for ref, item in self.compared.items() if ref not in seen}
        comparisons = {**compared, **{ref: self.unfit[ref] for ref in seen}}
        runs = replace(self.runs, values=values, compared=comparisons)
        return replace(self, misshapen=seen, compared=compared, values=values, runs=runs)

    @property
    def hidden_bodies(self) -> bool:
        """Whether the device may quantise inside bodies (of If, Loop, Scan)."""
        return self.quantisers.silent or hides_bodies(self.inputs.data.device)

    def quantised(self, groups: Sequence[Group], usual: Emulation) -> QuantisedOps:
        """Which kinds of quantised ops are exact on this device."""
        quantised_ops = QuantisedOps(
            self.golden, usual, self.options.suspect, hidden_bodies=self.hidden_bodies
        )
        if not self.quantisers.by_tensor:
            return quantised_ops
        return quantised_ops.seen(groups, self.runs.run, self.runs.handed_on)

    def groups(self) -> Sequence[Group]:
        """For each compared output the golden ops between it and the measured outputs before it."""
        return self.groups_of(
            [ref for ref, item in self.compared.items() if item.golden is not None]
        )

    def groups_of(self, outputs: Sequence[TensorRef]) -> Sequence[Group]:
        """For each of *outputs*, compared or misshapen, its group."""
        measured = {
            ref: item.golden for ref, item in self.runs.compared.items() if item.golden is not None
        }
        dumped = frozenset(
            TensorRef(op, port)
            for op, io, port in self.inputs.sources.golden_dump.tensors
            if io is TensorIO.OUTPUT
        )
        changed = frozenset(self._changed())
        unseen, dynamic = self.quantisers.unseen, self.quantisers.dynamic_ops
        cutter = GroupCutter(self.golden, self.device, measured, dumped, changed, unseen, dynamic)
        groups = [cutter.group(ref) for ref in outputs]
        return confirmed(self.runs, groups) if self.recorded else groups

    def _changed(self) -> Iterator[TensorRef]:
        """Golden constants whose readers are run on the device's values, as for any other tensor:
        what both sides compute, and what differs, as then the constant is at fault.

        Except those that differ because fp16 cannot hold them: there the op that uses the constant
        breaks the values.
        """
        for ref, item in self.compared.items():
            golden = item.golden
            if golden is None or item.metrics is None or not self.golden.is_constant(golden.op):
                continue
            if self.golden.ops[golden.op].inputs and self.device.ops[ref.op].inputs:
                yield golden
            # Not `>`: a NaN distance is a changed constant, too.
            elif not item.metrics.relative_euclidean_distance <= calibration.SAME_CONSTANT:
                value = self.values.golden(golden)
                if value is not None and value.dtype.kind == "f" and fits_half(value):
                    yield golden

    def inputs_error(self, group: Group, sources: Sequence[TensorRef]) -> float | None:
        """The largest relative error of *sources* and of the model's inputs a group is fed; None
        if it is fed nothing that can differ."""
        errors: list[float] = []
        for ref in sources:
            metrics = self.runs.compared[ref].metrics
            error = math.nan if metrics is None else metrics.relative_euclidean_distance
            if math.isfinite(error):
                errors.append(error)
        for feed in group.feeds:
            if feed.device is None and feed.golden is None:
                entry = entry_error(self.values, feed.tensor)
                errors += [] if entry is None else [entry]
        return max(errors) if errors else None


def _alike(pair: Pair) -> bool:
    """Whether both sides hold the same kind of number: a dequantiser's float output that was
    matched to golden's integers by value is not to be judged against these."""
    integers = pair.golden.dtype is not None and pair.golden.dtype in RANGES
    return not (integers and pair.op.type in DEQUANTISING)
