"""Split the error of every compared device output: the analysis of one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from divergraph.execute.contract import Array, Executor
from divergraph.graphs.pairing import Pair
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.deciding import Deciding, coarsest
from divergraph.rootcause.devices.functions import functions_remark
from divergraph.rootcause.devices.integer_kernels import without_exact_kernels
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.devices.operand_precision import Operands, remark
from divergraph.rootcause.devices.precision import Precision, fits_half
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.devices.quantisers import (
    DEQUANTISING,
    RANGES,
    Quantisers,
    find_quantisers,
    hides_bodies,
)
from divergraph.rootcause.explaining import Explaining, Judged
from divergraph.rootcause.groups.group_runs import GroupRuns
from divergraph.rootcause.groups.groups import Group, GroupCutter
from divergraph.rootcause.groups.op_graph import OpGraph, Source
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunInputs, Splits
from divergraph.rootcause.splits import OutputValues, same_shape, split_error, unknown, worst_error
from divergraph.rootcause.tolerances.expecting import Expecting
from divergraph.rootcause.tolerances.graph_inputs import entry_error, entry_mismatches
from divergraph.rootcause.tolerances.masks import without
from divergraph.rootcause.tolerances.noise_floor import Floors
from divergraph.rootcause.tolerances.nonfinite_origins import (
    ignores_nan,
    ignoring,
    is_nonfinite_origin,
)
from divergraph.rootcause.tolerances.random_sources import random_feed, remarks
from divergraph.rootcause.tolerances.refinement import ToleranceEstimate
from divergraph.rootcause.values import is_numeric
from divergraph.values.run_values import RunValues
from graphstore.model import (
    Comparison,
    DeviceArithmetic,
    ErrorSplit,
    Guilt,
    Role,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.topological_order import graph_arrays


def split_run(
    inputs: RunInputs,
    executor: Executor,
    options: RootCauseOptions,
    progress: Progress = NO_PROGRESS,
    see: Callable[[Judged], None] | None = None,
) -> Splits:
    """The error of every compared device output, split; memory stays about as the options say.

    *see* is shown the values of each, one after the other; then no causes are looked for.
    """
    return _Analysis(inputs, executor, options, progress, see).splits()


@dataclass
class _Analysis:
    inputs: RunInputs
    executor: Executor
    options: RootCauseOptions
    progress: Progress
    see: Callable[[Judged], None] | None = None
    golden: OpGraph = field(init=False)
    device: OpGraph = field(init=False)
    values: RunValues = field(init=False)
    runs: GroupRuns = field(init=False)
    compared: Mapping[TensorRef, Comparison] = field(init=False)
    explaining: Explaining = field(init=False)
    quantisers: Quantisers = field(init=False)
    expecting: Expecting = field(init=False)
    births: set[TensorRef] = field(default_factory=set)
    drawn: dict[TensorRef, str] = field(default_factory=dict)
    """By output, where no op is to blame for an error, the random op its group was fed."""

    def __post_init__(self) -> None:
        outputs = {
            TensorRef(item.op, item.port): item
            for item in self.inputs.comparisons
            if item.io is TensorIO.OUTPUT and item.compared and item.shape is not None
        }
        pairs = {
            TensorRef(pair.op.id, pair.port): pair
            for pair in self.inputs.pairs
            if pair.io is TensorIO.OUTPUT
            and pair.device.statistics is None
            and pair.golden.statistics is None
        }
        self.golden = OpGraph(self.inputs.golden)
        self.device = OpGraph(self.inputs.device)
        self.compared = {
            ref: item for ref, item in outputs.items() if ref in pairs and self._alike(pairs[ref])
        }
        self.values = RunValues(
            {ref: pair.tensors for ref, pair in pairs.items()},
            {ref: item.shape for ref, item in self.compared.items() if item.shape is not None},
            self.inputs.golden_dump,
            self.inputs.device_dump,
            self.options.memory // 4,
        )
        self.runs = GroupRuns(
            self.executor, self.golden, self.values, self.compared, self.options.memory
        )
        found = self.inputs
        self.quantisers = find_quantisers(
            found.device, found.golden, found.comparisons, found.links, found.device_constant
        )
        self.explaining = Explaining(
            graph_arrays(self.inputs.device),
            self.golden,
            self.values,
            self.compared,
            self.executor,
            {op.id: op.type for op in self.inputs.device.ops},
            self.options.memory // 2,
        )

    def _alike(self, pair: Pair) -> bool:
        """Not what a copy of a dequantiser gives back, found by the integers it was given."""
        integers = pair.golden.dtype is not None and pair.golden.dtype in RANGES
        return not (integers and pair.op.type in DEQUANTISING)

    def splits(self) -> Splits:
        self.progress.stage("finding the device's precision")
        deciding = Deciding(self.runs, self.device, self.quantisers, self.options)
        precision = self.options.precision or coarsest(deciding.precisions())
        groups = self._groups()
        arithmetics = deciding.arithmetics(precision, groups)
        taken, functions = arithmetics.taken, arithmetics.usual.approximated
        groups = without_exact_kernels(self.golden, groups, self.runs.run, arithmetics.usual)
        self.expecting = self._expecting(groups, arithmetics.usual)
        splits: dict[TensorRef, ErrorSplit] = {}
        self.progress.stage("running original ops on the device's values", len(groups))
        for chunk in self.runs.chunks(groups):
            splits.update(self._split_all(chunk, arithmetics))
            self.progress.step(len(chunk))
        return Splits(
            splits,
            {
                group.output: replace(group, source=Source.RANDOM)
                if group.output in self.drawn
                else group
                for group in groups
            },
            self._arithmetic(precision, arithmetics),
            self.executor.name,
            tuple(entry_mismatches(self.golden, self.values, self.compared, precision.unit)),
            tuple(self.explaining.findings),
            frozenset(self.births),
            self.runs.assumed,
            tuple(
                said
                for said in (
                    remark(taken),
                    functions_remark(functions),
                    *remarks(self.drawn),
                    *self.runs.remarks(groups),
                    *self.explaining.remarks(),
                )
                if said
            ),
        )

    def _arithmetic(self, precision: Precision, arithmetics: Arithmetics) -> DeviceArithmetic:
        return DeviceArithmetic(
            precision.name,
            bool(self.quantisers.by_tensor),
            {
                family.value: kind.value
                for family, kind in arithmetics.taken.items()
                if kind is not Operands.FULL
            },
            dict(arithmetics.usual.approximated),
            tuple(sorted({ref.op for ref in arithmetics.kept_single})),
        )

    def _expecting(self, groups: Sequence[Group], usual: Floors) -> Expecting:
        hidden = hides_bodies(self.inputs.device)
        quantised = QuantisedOps(self.golden, usual, self.options.suspect, hidden_bodies=hidden)
        if self.quantisers.by_tensor:
            quantised = quantised.seen(groups, self.runs.run, self.runs.handed_on)
        return Expecting(self.executor, self.golden, self.values, self.options, quantised, hidden)

    def _groups(self) -> Sequence[Group]:
        measured = {
            ref: item.golden for ref, item in self.compared.items() if item.golden is not None
        }
        dumped = frozenset(
            TensorRef(op, port)
            for op, io, port in self.inputs.golden_dump.tensors
            if io is TensorIO.OUTPUT
        )
        changed = frozenset(self._changed())
        unseen = self.quantisers.unseen
        grouping = GroupCutter(self.golden, self.device, measured, dumped, changed, unseen)
        return [grouping.group(ref) for ref in measured]

    def _changed(self) -> Iterator[TensorRef]:
        """Golden constants of which the device has others: the fault is there, not behind them.

        But for those no fp16 holds: what they break is broken by the op that uses them.
        """
        for item in self.compared.values():
            golden = item.golden
            if golden is None or item.metrics is None or not self.golden.is_constant(golden.op):
                continue
            if not item.metrics.relative_euclidean_distance <= calibration.SAME_CONSTANT:
                value = self.values.golden(golden)
                if value is not None and value.dtype.kind == "f" and fits_half(value):
                    yield golden

    def _split_all(
        self, chunk: Sequence[Group], arithmetics: Arithmetics
    ) -> dict[TensorRef, ErrorSplit]:
        """The splits of a chunk; in halves if there is not enough memory for it at once."""
        known = len(self.explaining.findings)
        try:
            return dict(self._split_chunk(chunk, arithmetics))
        except MemoryError:
            del self.explaining.findings[known:]
        if len(chunk) == 1:
            return {chunk[0].output: unknown("not enough memory for its values", chunk[0].ops)}
        middle = len(chunk) // 2
        first = self._split_all(chunk[:middle], arithmetics)
        return {**first, **self._split_all(chunk[middle:], arithmetics)}

    def _split_chunk(
        self, chunk: Sequence[Group], arithmetics: Arithmetics
    ) -> Iterator[tuple[TensorRef, ErrorSplit]]:
        runnable: list[Group] = []
        feeds: list[dict[str, Array]] = []
        for group in chunk:
            if group.failure:
                yield group.output, unknown(group.failure, group.ops)
            elif group.is_passthrough is not None:
                yield group.output, self._passed_on(group, group.is_passthrough, arithmetics.usual)
            else:
                given, missing = self.runs.feeds(group)
                if missing:
                    yield group.output, unknown(f"no values of {missing}", group.ops)
                else:
                    runnable.append(group)
                    feeds.append(given)
        references = self.runs.references(runnable, feeds)
        emulated = arithmetics.emulated(runnable, feeds)
        for group, given, reference, imitated in zip(
            runnable, feeds, references, emulated, strict=True
        ):
            if isinstance(reference, str):
                yield group.output, unknown(reference, group.ops, self.executor.name)
            else:
                told = self.expecting.of(group, given, reference, imitated, arithmetics.of(group))
                precision = arithmetics.of(group).precision
                yield group.output, self._split(group, told, given, precision)

    def _passed_on(self, group: Group, source: TensorRef, floors: Floors) -> ErrorSplit:
        reference = self.values.device(source)
        if reference is None:
            return unknown(f"no values of {source}", group.ops)
        told = self.expecting.passed_on(group, reference, floors)
        given = {self.golden.name(group.golden): reference}
        return self._split(group, told, given, floors.precision, (source,))

    def _split(
        self,
        group: Group,
        told: ToleranceEstimate,
        given: Mapping[str, Array],
        precision: Precision,
        sources: Sequence[TensorRef] | None = None,
    ) -> ErrorSplit:
        device, golden = self.values.device(group.output), self.values.golden(group.golden)
        shape, reference = self.compared[group.output].shape, told.reference
        if device is None or golden is None or shape is None:
            return unknown("its values cannot be read", group.ops, self.executor.name)
        fitting = same_shape(reference, device.shape)
        golden_like = same_shape(golden, device.shape)
        if fitting is None or golden_like is None:
            said = f"the reference has shape {list(reference.shape)}, not {list(device.shape)}"
            return unknown(said, group.ops, self.executor.name)
        if not all(map(is_numeric, (device, fitting, golden_like))):
            return unknown("its elements are no numbers", group.ops, self.executor.name)
        if told.masked is not None:
            device, golden_like = without(told.masked, device), without(told.masked, golden_like)
        error = self._inputs_error(group, group.measured if sources is None else sources)
        measured = OutputValues(
            device,
            fitting,
            golden_like,
            told.floor,
            error,
            told.absolute,
            tuple(given.values()),
            precision,
        )
        split = split_error(measured, self.options, group.ops, self.executor.name)
        source = None if split.guilt is Guilt.NONE else random_feed(self.golden, group)
        if source is not None:
            self.drawn[group.output] = source
            return unknown(f"it takes random numbers of {source}", group.ops, self.executor.name)
        types = {self.golden.ops[op_id].type for op_id in group.ops}
        if ignores_nan(device, fitting, given, types):
            self.explaining.findings.append(ignoring(group.output))
            return replace(split, guilt=Guilt.SUSPECT, suspicion=math.inf, role=Role.INTRODUCES)
        if told.expected is not None:
            fitting = told.expected.reshape(device.shape)
        judged = Judged(group, split, device, fitting, golden_like, given)
        if is_nonfinite_origin(device, fitting, golden_like, given):
            self.births.add(group.output)
        if self.see is not None:
            self.see(judged)
        elif split.guilt is not Guilt.NONE:
            self.explaining.look_at(judged)
        return split

    def _inputs_error(self, group: Group, sources: Sequence[TensorRef]) -> float | None:
        errors: list[float] = []
        for ref in sources:
            metrics = self.compared[ref].metrics
            error = math.nan if metrics is None else metrics.relative_euclidean_distance
            if math.isfinite(error):
                errors.append(error)
        for feed in group.feeds:
            if feed.device is None and feed.golden is None:
                entry = entry_error(self.values, feed.tensor)
                errors += [] if entry is None else [entry]
        return worst_error(errors)
