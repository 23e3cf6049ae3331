"""Who introduced an error: the algorithm of docs/explanation/root-cause.md, from top to bottom.

For every device output d that was compared:

1. *group*: the golden ops behind it, cut back to outputs the device measured (``groups``);
2. *arithmetic*: what the device computes them in (``devices``);
3. *reference* r: the original ops run on the device's own inputs, so that errors that were
   there before are in r as well and blame nobody;
4. *emulation* e: the same in the device's arithmetic;
5. *floor* = max(|e - r| / |r|, the least rounding of the type): error that arithmetic explains;
6. *tolerances* exclude places, widen the floor and narrow it (``tolerances``);
7. *suspicion* = (|d - r| / |r|) / floor, and over two limits the *guilt*;
8. *propagated* = |r - golden| / |golden|, from which the *role* follows;
9. of what is guilty or suspect the *cause*: the first rule that predicts d from r (``causes``).

Which of the guilty ops are origins is decided for the run as a whole (``run``, ``verdicts``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.execute.contract import Array, Executor
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.arithmetic.family_groups import products_like
from divergraph.rootcause.consequences import with_consequences
from divergraph.rootcause.devices.deciding import Deciding, coarsest
from divergraph.rootcause.devices.dynamic_choice import with_dynamic_scales
from divergraph.rootcause.devices.functions import FUNCTIONS, functions_remark
from divergraph.rootcause.devices.held_weights.told_weights import with_told_weights
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.quantised_ops import QuantisedOps, without_exact_kernels
from divergraph.rootcause.end_to_end import rounded_from_the_inputs
from divergraph.rootcause.explaining import Explaining
from divergraph.rootcause.graph_inputs import entry_mismatches
from divergraph.rootcause.groups.group_reruns import OpVerdict
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph, Source
from divergraph.rootcause.judgement import Judgement, expect, split_of, unknown
from divergraph.rootcause.lost_axes import with_lost_axes
from divergraph.rootcause.lost_parts import with_lost_parts
from divergraph.rootcause.misshapen import with_misshapen
from divergraph.rootcause.nonfinite_origins import (
    ignores_nan,
    ignoring,
    is_made_by_steps,
    is_nonfinite_origin,
)
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import RunInputs, Splits
from divergraph.rootcause.tolerances.contract import OpContext
from divergraph.rootcause.tolerances.masks import without
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.tolerances.standing_out import standing_out, unlike_their_family
from divergraph.rootcause.undumped_inputs.search import Culprit, FedOtherwise, fed_otherwise
from divergraph.rootcause.values import is_numeric, relative, same_shape
from divergraph.text.words import first_names
from graphstore.model import ErrorSplit, Guilt, InputMismatch, Reckoning, Role, TensorRef

Observer = Callable[[OpVerdict], None]


def split_run(
    inputs: RunInputs,
    executor: Executor,
    options: RootCauseOptions,
    progress: Progress = NO_PROGRESS,
    observer: Observer | None = None,
) -> Splits:
    """Every compared device output with its error split into introduced and propagated.

    Runs groups in chunks, so that values and weights stay near ``options.memory`` bytes. An output
    that cannot be judged has a split whose ``failure`` says why. With an *observer*, which gets the
    arrays of each judged output in turn, no causes are looked for.
    """
    return split_prepared(PreparedRun.of(inputs, executor, options), progress, observer)


def split_prepared(
    run: PreparedRun, progress: Progress = NO_PROGRESS, observer: Observer | None = None
) -> Splits:
    """As :func:`split_run`, of a run that is prepared already."""
    return Splitting(run).split(progress, observer)


@dataclass
class Splitting:
    """Splits the errors of a ``run``: of all of it, then of parts where a dump is doubted."""

    run: PreparedRun
    _decided: tuple[Arithmetics, QuantisedOps] | None = None

    def split(self, progress: Progress = NO_PROGRESS, observer: Observer | None = None) -> Splits:
        """As :func:`split_run`."""
        progress.stage("finding the device's precision")
        self.run, misshapen = with_misshapen(self.run)
        run, executor = self.run, self.run.executor
        deciding = Deciding(run)
        precision = run.options.precision or coarsest(deciding.precisions())
        groups, weights_remark = run.groups(), ""
        if precision is FP32:
            run, weights_remark = with_told_weights(run, groups)
            deciding = replace(deciding, run=run)
        arithmetics = deciding.arithmetics(precision, groups)
        groups, arithmetics = with_dynamic_scales(run, groups, arithmetics)
        groups = without_exact_kernels(run.golden, groups, run.runs.run, arithmetics.usual)
        quantised = run.quantised(groups, arithmetics.usual)
        groups = [*groups, *misshapen.follow]
        self._decided = arithmetics, quantised
        judging = _Judging(run, arithmetics, quantised, Explaining(run, progress), observer)
        progress.stage("running original ops on the device's values", len(groups))
        for chunk in run.runs.chunks(groups):
            judging.splits.update(judging.split_all(chunk))
            progress.step(len(chunk))
        # Only now it is known what is usual in this run.
        for chunk in run.runs.chunks(judging.find_standing_out(groups)):
            judging.splits.update(judging.split_all(chunk))
        unlike = _Unlike(judging, groups)
        if observer is None:  # who watches ops knows the run's answer
            unlike.look()
        remarks = (
            weights_remark,
            arithmetics.remark,
            functions_remark(arithmetics.usual),
            *_drawn_remarks(judging.drawn),
            *run.runs.remarks(groups),
            *judging.explaining.remarks(),
        )
        # Where the device did not dump its random numbers, a different draw may be the whole error:
        # such groups count as sources, so nothing falls back to judging them by their gain.
        drawn = [
            replace(group, source=Source.RANDOM)
            for group in groups
            if group.output in judging.drawn
        ]
        groups_by_output = {group.output: group for group in (*groups, *drawn, *unlike.fed)}
        splits = Splits(
            {**judging.splits, **misshapen.splits},
            {**groups_by_output, **misshapen.groups},
            arithmetics.described(precision, quantised=run.quantisers.in_integers),
            executor.name,
            (*_entry_mismatches(run, precision.unit), *unlike.mismatches),
            (*misshapen.findings, *judging.explaining.findings),
            judging.nonfinite,
            run.runs.assumed,
            unlike.unsure,
            tuple(remark for remark in remarks if remark),
            arithmetics.operands.unexplained,
            tuple(judging.reckonings.values()),
            run.misshapen,
        )
        if observer is not None:
            for verdict in misshapen.verdicts:
                observer(verdict)
            return splits
        # What the device was fed is known by now.
        run = replace(run, runs=replace(run.runs, fed={**run.runs.fed, **unlike.values}))
        splits = with_consequences(run, arithmetics, with_lost_axes(run, splits))
        # What steps fit golden's input may wipe out another one: no op is to blame for that.
        return splits if splits.entries else with_lost_parts(run, splits)

    def rounded(
        self, groups: Mapping[TensorRef, Group], wanted: Sequence[TensorRef]
    ) -> Mapping[TensorRef, Array] | str:
        """Outputs as rounding in every op gives them; see :mod:`.end_to_end`."""
        assert self._decided is not None, "the whole run comes first"
        arithmetics, _ = self._decided
        return rounded_from_the_inputs(self.run, groups, arithmetics, wanted)

    def without(self, outputs: Collection[TensorRef], splits: Splits) -> Splits:
        """The splits of what is not as in *splits* where *outputs* have no dump: as :meth:`split`
        finds them, or milder, since of two arithmetics of a device the coarser is taken."""
        assert self._decided is not None, "the whole run comes first"
        arithmetics, quantised = self._decided
        run = self.run.without(outputs)
        groups = [
            group for group in run.groups() if not group.is_alike(splits.groups[group.output])
        ]
        judging = _Judging(run, arithmetics.coarser(), quantised, Explaining(run), lambda _: None)
        for chunk in run.runs.chunks(groups):
            judging.splits.update(judging.split_all(chunk))
        groups_by_output = {group.output: group for group in groups}
        return replace(splits, by_output=judging.splits, groups=groups_by_output)


def _entry_mismatches(run: PreparedRun, unit: float) -> Iterator[InputMismatch]:
    if not run.recorded:  # there the inputs of calls are no inputs of the model
        quantised = run.quantisers.in_integers
        yield from entry_mismatches(run.golden, run.values, run.compared, unit, quantised=quantised)


@dataclass
class _Judging:
    """Judges outputs chunk by chunk and collects what was found of them."""

    run: PreparedRun
    arithmetics: Arithmetics
    quantised: QuantisedOps
    explaining: Explaining
    observer: Observer | None
    splits: dict[TensorRef, ErrorSplit] = field(default_factory=dict)
    nonfinite: dict[TensorRef, bool] = field(default_factory=dict)
    """Outputs in which NaN or infinities arise, in the reference as well: by a quantiser's step?"""
    drawn: dict[TensorRef, str] = field(default_factory=dict)
    """By output, where no op is to blame for an error, the random op its group was fed."""
    reckonings: dict[TensorRef, Reckoning] = field(default_factory=dict)
    worst: dict[tuple[str, bool, bool], dict[TensorRef, float]] = field(default_factory=dict)
    """By kind of error, then by output, the suspicion of the worst part of what was computed."""
    stand_out: dict[TensorRef, float] = field(default_factory=dict)
    """The suspicion of outputs that stand out among all of the run."""

    def find_standing_out(self, groups: Sequence[Group]) -> list[Group]:
        """The groups whose outputs stand out, to be judged again as such."""
        golden = self.run.golden
        types = {group.output: golden.ops[group.golden.op].type for group in groups}
        families = {group.output: products_like(group, golden) for group in groups}
        options = self.run.options
        for (_, is_quantised, _), suspicions in self.worst.items():
            self.stand_out |= standing_out(suspicions, options, types.__getitem__)
            if not is_quantised:  # what integers lose depends on their values
                self.stand_out |= unlike_their_family(suspicions, options, families.__getitem__)
        return [group for group in groups if group.output in self.stand_out]

    def split_all(self, chunk: Sequence[Group]) -> dict[TensorRef, ErrorSplit]:
        """The splits of a chunk, which is halved as long as memory runs out."""
        count_before = len(self.explaining.findings)
        try:
            return dict(self._split_chunk(chunk))
        except MemoryError:
            del self.explaining.findings[count_before:]  # they are found again
        if len(chunk) == 1:
            return {chunk[0].output: unknown("not enough memory for its values", chunk[0].ops)}
        middle = len(chunk) // 2
        return {**self.split_all(chunk[:middle]), **self.split_all(chunk[middle:])}

    def _split_chunk(self, chunk: Sequence[Group]) -> Iterator[tuple[TensorRef, ErrorSplit]]:
        """References and emulations of a chunk are run side by side, then judged one by one."""
        runnable: list[Group] = []
        feeds: list[dict[str, Array]] = []
        for group in chunk:
            if group.failure:
                yield group.output, unknown(group.failure, group.ops)
            elif group.is_passthrough is not None:
                yield group.output, self._handed_on(group, group.is_passthrough)
            else:
                group_feeds, missing = self.run.runs.feeds(group)
                if missing:
                    yield group.output, unknown(f"no values of {missing}", group.ops)
                else:
                    runnable.append(group)
                    feeds.append(group_feeds)
        references = self.run.runs.references(runnable, feeds)
        plain = references
        if self.observer is None:  # who watches ops asks for all of their errors
            references = self.arithmetics.sharpened(runnable, feeds, plain)
        emulations = self.arithmetics.emulated(runnable, feeds)
        runner = self.run.executor.name
        for group, group_feeds, exact, reference, emulation in zip(
            runnable, feeds, plain, references, emulations, strict=True
        ):
            if isinstance(reference, str) or isinstance(exact, str):
                yield group.output, unknown(str(reference), group.ops, runner)
            else:
                floors = self.arithmetics.of(group)
                context = self._context(group, group_feeds, floors, group.measured)
                yield group.output, self._split(context, reference, emulation, exact)

    def _handed_on(self, group: Group, source: TensorRef) -> ErrorSplit:
        """The split of an op that computes nothing: its reference is the value it was given."""
        reference = self.run.values.device(source)
        if reference is None:
            return unknown(f"no values of {source}", group.ops)
        feeds = {self.run.golden.name(group.golden): reference}
        usual = self.arithmetics.usual
        context = self._context(group, feeds, usual, (source,))
        return self._split(context, reference, usual.passed_on(group, reference))

    def _context(
        self,
        group: Group,
        feeds: Mapping[str, Array],
        floors: Emulation,
        sources: Sequence[TensorRef],
    ) -> OpContext:
        run = self.run
        return OpContext(
            run.executor,
            run.golden,
            run.options,
            self.quantised,
            run.hidden_bodies,
            group,
            feeds,
            floors,
            run.inputs_error(group, sources),
            self.arithmetics.instead_of(floors),
            self.stand_out.get(group.output, 0.0),
        )

    def _split(
        self,
        context: OpContext,
        reference: Array,
        emulation: Array | None,
        exact: Array | None = None,
    ) -> ErrorSplit:
        """The judgement of one output, unless its values say nothing. *exact* is what the original
        op gives where the *reference* is that of operands as the device reads them."""
        group, runner = context.group, self.run.executor.name
        device = self.run.values.device(group.output)
        golden = self.run.values.golden(group.golden)
        if device is None or golden is None:
            return unknown("its values cannot be read", group.ops, runner)
        if group.output in self.run.misshapen:
            # Nothing of it is golden's: against zeros all of it is handed on from before.
            golden = np.zeros(device.shape, golden.dtype)
        fitting, golden_like = same_shape(device, reference.shape), same_shape(golden, device.shape)
        if fitting is None or golden_like is None:
            why = f"the reference has shape {list(reference.shape)}, not {list(device.shape)}"
            return unknown(why, group.ops, runner)
        if not all(map(is_numeric, (device, reference, golden_like))):
            return unknown("its elements are not numbers", group.ops, runner)
        judgement = expect(context, reference, fitting, emulation)
        worst = self.worst.setdefault(_kind(context), {})
        worst[group.output] = min(judgement.worst, judgement.estimate.bound)
        golden_like = without(judgement.estimate.masked, golden_like).reshape(reference.shape)
        handed_on = golden_like
        if exact is not None and exact is not reference:
            # What a format loses came from nowhere before the op: it is not propagated.
            handed_on = golden_like + (reference - exact).astype(golden_like.dtype)
        split = split_of(judgement, handed_on, context, runner)
        source = None if split.guilt is Guilt.NONE else _random_feed(self.run.golden, group)
        if source is not None:  # an error cannot be told from a different draw
            self.drawn[group.output] = source
            return unknown(f"it takes random numbers of {source}", group.ops, runner)
        return self._recorded(context, judgement, split, golden_like, device.shape)

    def _recorded(
        self,
        context: OpContext,
        judgement: Judgement,
        split: ErrorSplit,
        golden: Array,
        shape: tuple[int, ...],
    ) -> ErrorSplit:
        """*split*, after keeping what else was found of the output: its reckoning, NaN that arise
        here or were ignored, and the cause of its error."""
        group, feeds, estimate = context.group, context.given, judgement.estimate
        device, reference = estimate.device.reshape(shape), estimate.reference.reshape(shape)
        reckoning = judgement.reckoning(context, split)
        if reckoning is not None:
            self.reckonings[group.output] = reckoning
        ops = [self.run.golden.ops[op_id] for op_id in group.ops]
        if ignores_nan(device, reference, feeds, {op.type for op in ops}):
            self.explaining.findings.append(ignoring(group.output))
            return replace(split, guilt=Guilt.SUSPECT, suspicion=math.inf, role=Role.INTRODUCES)
        if self.observer is None:  # an observer asks for steps of quantisers, too
            expected = estimate.expected
            # What a healthy device has lies on the grid of its quantiser, if it has one.
            on_grid = context.arithmetic.on_grid
            reference = on_grid(group, reference) if expected is None else expected.reshape(shape)
        verdict = OpVerdict(
            group, split, device, reference, golden.reshape(shape), feeds, judgement.noise
        )
        if is_nonfinite_origin(device, reference, verdict.golden, feeds, ops):
            self.nonfinite[group.output] = is_made_by_steps(context, reference)
        if self.observer is not None:
            self.observer(verdict)
        elif split.guilt is not Guilt.NONE:
            self.explaining.explain(verdict)
        return split


@dataclass
class _Unlike:
    """The inputs of the model that golden and the device were not fed alike, or may not have been,
    and that the device did not dump. What is to blame on them is taken from the ops."""

    judging: _Judging
    groups: Sequence[Group]
    mismatches: list[InputMismatch] = field(default_factory=list)
    unsure: dict[TensorRef, InputMismatch] = field(default_factory=dict)
    fed: list[Group] = field(default_factory=list)
    """Groups that read other values than are known."""
    values: dict[str, Array] = field(default_factory=dict)
    """By input what the device was fed, where that is known."""

    def look(self) -> None:
        """Look for them."""
        judging = self.judging
        unlike_feeds = fed_otherwise(
            judging.run,
            self.groups,
            judging.splits,
            judging.explaining.findings,
            self._judged,
            judging.arithmetics,
            judging.quantised,
        )
        for unlike in unlike_feeds:
            if unlike.blame is Culprit.EITHER:
                maybe = InputMismatch("", unlike.name, None, None, unlike.words)
                self.unsure |= dict.fromkeys(unlike.outputs, maybe)
            elif unlike.blame is Culprit.INPUT:
                self._acquit(unlike)

    def _acquit(self, unlike: FedOtherwise) -> None:
        judging, outputs = self.judging, set(unlike.outputs)
        groups = [group for group in self.groups if group.output in outputs]
        error = None
        if unlike.values is not None:
            self.values[unlike.name] = unlike.values
            judging.splits.update(self._judged({unlike.name: unlike.values}, groups))
            golden = judging.run.runs.feeds(groups[0])[0][unlike.name]
            error = relative(unlike.values, golden)
        else:
            reason = f"the device was fed other values of {unlike.name}, which it did not dump"
            judging.splits.update({group.output: unknown(reason, group.ops) for group in groups})
            self.fed += [replace(group, source=Source.ENTRY) for group in groups]
        judging.explaining.findings[:] = [
            finding
            for finding in judging.explaining.findings
            if TensorRef(finding.op, finding.port) not in outputs
        ]
        for output in outputs:
            judging.reckonings.pop(output, None)
        seen = tuple(dict.fromkeys(output.op for output in unlike.outputs))
        self.mismatches.append(InputMismatch("", unlike.name, error, None, unlike.words, seen))

    def _judged(
        self, values: Mapping[str, Array], groups: Sequence[Group]
    ) -> Mapping[TensorRef, ErrorSplit]:
        run = self.judging.run
        run = replace(run, runs=replace(run.runs, fed=values, assumed={}))
        judging = replace(
            self.judging,
            run=run,
            explaining=Explaining(run),
            observer=lambda _: None,
            splits={},
            nonfinite={},
            reckonings={},
            worst={},
        )
        for chunk in run.runs.chunks(groups):
            judging.splits.update(judging.split_all(chunk))
        return judging.splits


def _kind(context: OpContext) -> tuple[str, bool, bool]:
    """What makes the errors of an output healthy or not: its arithmetic, whether it is quantised,
    and whether a function is approximated on the way. Only outputs of one kind are alike."""
    ops = (context.golden.ops.get(op_id) for op_id in context.group.ops)
    functions = any(op is not None and op.type in FUNCTIONS for op in ops)
    quantised = context.arithmetic.step(context.group) is not None
    return context.arithmetic.precision.name, quantised, functions


def _random_feed(golden: OpGraph, group: Group) -> str | None:
    """The op whose random numbers *group* was fed as golden drew them."""
    feeds = (feed.golden for feed in group.feeds if feed.device is None)
    ops = (ref.op for ref in feeds if ref is not None and ref.op in golden.drawn)
    return next((golden.ops[op].name for op in ops), None)


def _drawn_remarks(drawn: Mapping[TensorRef, str]) -> Iterator[str]:
    """A sentence for each op whose unknown random numbers kept outputs from being judged."""
    for source in dict.fromkeys(drawn.values()):
        refs = [str(ref) for ref, cause in drawn.items() if cause == source]
        yield (
            f"{source} draws random numbers that the device did not dump: it may have drawn "
            f"others, or none, so {first_names(refs)} cannot be judged"
        )
