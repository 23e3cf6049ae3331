"""The root-cause analysis of a compared run: who introduced the error, in a run's own values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.installed import open_executor
from divergraph.execute.translate.torch.alone import runnable
from divergraph.jobs.progress import Progress
from divergraph.results.conclusion import with_inherent_damage, with_result
from divergraph.rootcause import calibration
from divergraph.rootcause.calls_alone import golden_as_run, is_recorded
from divergraph.rootcause.core import Splitting, split_run
from divergraph.rootcause.devices.constants import DeviceConstants
from divergraph.rootcause.dumped_otherwise import as_read
from divergraph.rootcause.fallback import with_fallback
from divergraph.rootcause.hiding import nonfinite_ops
from divergraph.rootcause.judged_calls import coverage_remark, with_calls_judged
from divergraph.rootcause.nonfinite_origins import with_nonfinite_origins
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.run_inputs import RunInputs, RunSources, Splits
from divergraph.rootcause.shape_metrics import with_shapes_measured
from divergraph.rootcause.unlike_weights import UnlikeWeights, unlike_weights
from divergraph.rootcause.values import is_numeric
from divergraph.rootcause.verdicts import as_origins, ops_over, ranked, states, verdict, with_splits
from divergraph.rootcause.weight_relations import with_weights_related
from divergraph.text.unlike_inputs import unlike_input_text, unlike_inputs_text
from divergraph.text.words import counted
from divergraph.thresholds.doubts import not_accused, undecided, with_doubt
from divergraph.thresholds.starts import owners_around
from divergraph.values.run_values import RunValues
from graphstore.contract import RunData
from graphstore.errors import ExecutionError
from graphstore.model import (
    UNCLASSIFIED,
    Blamed,
    Comparison,
    ErrorSplit,
    FindingKind,
    Guilt,
    Method,
    Reason,
    Reckoning,
    RunAnalysis,
    RunBlame,
    RunResult,
    TensorIO,
    TensorRef,
)
from graphstore.traverse.topological_order import graph_arrays

_NOTHING_RUN = "no original op could be run on the device's values: {}"
_MOST_RECKONINGS = 1000
"""Of about 1 kB each, read whenever the run is."""


def with_root_cause(
    data: RunData,
    sources: RunSources,
    choice: MethodChoice,
    options: RootCauseOptions,
    progress: Progress,
) -> RunData:
    """*data*, a compared run whose origins are those by thresholds, judged by root-cause analysis.

    Where *choice* is auto and the golden model cannot be run, only a warning is added.

    Raises:
        ExecutionError: the golden model cannot be run, and *choice* asks for root causes.
    """
    seen = data.run.counts.compared or any(item.misshapen for item in data.comparisons)
    if choice is MethodChoice.THRESHOLDS or not seen:
        return data
    if choice is MethodChoice.AUTO and is_recorded(data) and not _has_values(sources):
        return _by_thresholds(data, _NOTHING_RUN.format("nothing to run"))
    try:
        golden = runnable(golden_as_run(data) if is_recorded(data) else data.golden)
        executor = open_executor(sources.golden_path, golden, sources.golden_options)
    except ExecutionError as error:
        if choice is MethodChoice.ROOT_CAUSE:
            raise
        note = f"{error.what} ({error.hint})" if error.hint else error.what
        unlike = unlike_weights(data, sources.golden_path, sources.device_path)
        return _by_thresholds(data, note, unlike)
    with (
        closing(executor),
        DeviceConstants(sources.device_path, data.device) as constants,
        np.errstate(invalid="ignore"),  # dumps may hold any bits, signalling NaN among them
    ):
        inputs = RunInputs(data, sources, data.comparisons, constants.value)
        splitting = Splitting(PreparedRun.of(inputs, executor, options))
        splits = as_read(
            inputs,
            splitting.split(progress),
            splitting.without,
            lambda each: split_run(each, executor, options, progress),
        )
        if any(_told(each) for each in splits.by_output.values()):
            found, values = judged(data, splits, options), splitting.run.values
            found = with_weights_related(found, sources.pairs)
            if not is_recorded(data):
                return with_result(
                    found,
                    lambda ref: _pair(values, ref),
                    lambda wanted: splitting.rounded(splits.groups, wanted),
                )
            # Calls that stand alone carry no rounding to the outputs, so there is none to ask for.
            found = with_result(
                found, lambda ref: _pair(values, ref), lambda _: "calls stand alone"
            )
            return found if found.origins else with_inherent_damage(found)
    if choice is MethodChoice.AUTO:
        first = next((each.failure for each in splits.by_output.values()), "nothing to run")
        return _by_thresholds(data, _NOTHING_RUN.format(first))
    return judged(data, splits, options)


def _pair(values: RunValues, ref: TensorRef) -> tuple[Array, Array] | None:
    """The values of a device output and of its golden tensor; None unless both are numbers."""
    if ref not in values.shapes:
        return None
    device, pair = values.device(ref), values.pairs[ref]
    golden = values.golden(TensorRef(pair.golden.op, pair.golden.port))
    if device is None or golden is None or device.size != golden.size:
        return None
    if not (is_numeric(device) and is_numeric(golden)):
        return None
    return device.reshape(golden.shape), golden


def _has_values(sources: RunSources) -> bool:
    """Whether the device's dump has more than statistics: graphs of jobs take long to prepare."""
    return any(ref.statistics is None for ref in sources.device_dump.tensors.values())


def _told(split: ErrorSplit) -> bool:
    return not split.failure


def _by_thresholds(data: RunData, note: str, unlike: UnlikeWeights | None = None) -> RunData:
    said = f"origins were found by thresholds, not by root-cause analysis: {note}"
    weights = "" if unlike is None else unlike.words
    warnings = (*data.run.warnings, *filter(None, (said, weights)))
    found = replace(data, run=replace(data.run, warnings=warnings, analysis=RunAnalysis(note=note)))
    if unlike is None or not unlike.are_most or not data.origins:
        return found
    found = undecided(with_doubt(found, weights))
    return replace(found, run=replace(found.run, blame=RunBlame(Blamed.NOT_KNOWN, weights)))


def _of_wrong_shape(data: RunData, splits: Splits) -> set[TensorRef]:
    """The outputs of another shape than golden's that are wrong. A recorded call may have read more
    rows than golden's, as experts are sent, and what it makes of these is judged by itself."""
    return {
        ref
        for ref in splits.misshapen
        if not is_recorded(data) or splits.by_output[ref].guilt is Guilt.GUILTY
    }


def judged(data: RunData, splits: Splits, options: RootCauseOptions) -> RunData:
    """*data* with the origins, suspects, states and verdict that follow from *splits*."""
    arrays = graph_arrays(data.device)
    data = with_shapes_measured(data, _of_wrong_shape(data, splits))
    sources = {
        ref
        for ref, group in splits.groups.items()
        if group.source is not None or not splits.misshapen.isdisjoint((ref, *group.measured))
    }
    by_output = dict(splits.by_output)
    if not is_recorded(data):  # edges that are guessed from values say no gain
        by_output = with_fallback(arrays, data.comparisons, by_output, sources)
    by_output, started = with_nonfinite_origins(arrays, by_output, splits.nonfinite, _broken(data))
    comparisons = with_splits(data.comparisons, by_output)
    ops = data.device.op_index()
    over = ops_over(comparisons, Guilt.GUILTY)
    around = owners_around(data.device, over)
    guilty = ranked(arrays, {op: item for op, item in over.items() if op not in around})
    blamed = {item.op for item in guilty}
    suspects = {
        op: item for op, item in ops_over(comparisons, Guilt.SUSPECT).items() if op not in blamed
    }
    known = {(each.op, each.port) for each in started}
    findings = [*started, *(each for each in splits.findings if (each.op, each.port) not in known)]
    by_sureness = sorted(findings, key=lambda each: each.confidence)
    causes = {each.op: each.sentence for each in by_sureness if each.label != UNCLASSIFIED}
    others = tuple(each for each in data.findings if each.kind is not FindingKind.CAUSE)
    origins = as_origins(guilty, ops, data.links, causes)
    inside, beside = _not_compared(data, by_output)
    run = replace(
        data.run,
        verdict=verdict(data.run.counts, origins, comparisons, splits.entries),
        method=Method.ROOT_CAUSE,
        warnings=tuple(
            dict.fromkeys(
                (
                    *data.run.warnings,
                    *_warnings(splits, data),
                    *_assumptions(splits, guilty),
                )
            )
        ),
        analysis=replace(_analysis(splits, options), inside=inside, beside=beside),
        result=RunResult(),
        blame=RunBlame(),
    )
    found = replace(
        data,
        run=run,
        comparisons=comparisons,
        states=states(arrays, comparisons, blamed, around),
        origins=origins,
        suspects=as_origins(ranked(arrays, suspects), ops, data.links, causes),
        findings=(*others, *findings),
    )
    found = with_calls_judged(found, by_output)
    said = everywhere(splits, by_output)
    if said:
        on = Blamed.NOT_KNOWN if _in_all_guilty(by_output) else Blamed.ARITHMETIC
        found = undecided(with_doubt(found, said))
        return replace(found, run=replace(found.run, blame=RunBlame(on, said)))
    if splits.unexplained:
        found = with_doubt(found, splits.unexplained)
        if not origins:
            blame = RunBlame(Blamed.ARITHMETIC, splits.unexplained)
            found = replace(undecided(found), run=replace(undecided(found).run, blame=blame))
    unsure = {ref.op for ref in splits.unsure}
    if unsure:
        said = _either(splits, unsure)
        found = with_doubt(found, said)
        # A suspect that may be right leaves the guilty ones as they are.
        if unsure & blamed or not origins:
            blame = RunBlame(Blamed.INPUTS_OR_OPS, said, tuple(sorted(unsure)))
            found = not_accused(found, unsure)
            found = replace(found, run=replace(found.run, blame=blame))
    # A guilty op is guilty on the device's own inputs; but golden has the results of others.
    return with_doubt(found, unlike_inputs_text(splits.entries) if origins else "")


def _either(splits: Splits, ops: Collection[str]) -> str:
    """A doubt: *ops* may be right and the device may have been fed something else."""
    inputs = list(dict.fromkeys(maybe for ref, maybe in splits.unsure.items() if ref.op in ops))
    names = ", ".join(each.tensor for each in inputs)
    fed = " and ".join(map(unlike_input_text, inputs))
    return (
        f"either {', '.join(sorted(ops))} is wrong or {fed}, which explains as much: a dump of "
        f"{names} would tell"
    )


def everywhere(splits: Splits, by_output: Mapping[TensorRef, ErrorSplit]) -> str:
    """A doubt if so many tensors are guilty that the analysis is wrong, not the device; else ""."""
    told = [each.guilt for each in by_output.values() if each.suspicion is not None]
    guilty, most = told.count(Guilt.GUILTY), calibration.SHARE_EVERYWHERE * len(told)
    if guilty < calibration.GUILTY_EVERYWHERE or guilty <= most:
        return ""
    said = (
        f"{guilty} of {counted(len(told), 'tensor')} are over what {splits.arithmetic} "
        "arithmetic explains: faults are rarely everywhere, so the device may compute in "
        "another precision than its dump and graph suggest (--precision), or run another graph"
    )
    if shared := len(_in_all_guilty(by_output)):
        said += f", or one fault is in {counted(shared, 'op')} that all of them are computed by"
    return f"{said}; more of its tensors dumped may tell"


def _in_all_guilty(by_output: Mapping[TensorRef, ErrorSplit]) -> frozenset[str]:
    """The golden ops that are in the groups of all guilty outputs: where few tensors are dumped,
    one fault among them may be the reason for every error."""
    groups = [frozenset(each.group) for each in by_output.values() if each.guilt is Guilt.GUILTY]
    return frozenset.intersection(*groups) if groups else frozenset()


def _not_compared(data: RunData, by_output: Mapping[TensorRef, ErrorSplit]) -> tuple[int, int]:
    """How many tensors without a comparison were judged as parts of an op made of several, and for
    how many there is nothing to compare with: constants that judged ops read, and what a compiler
    put in."""
    within = {op for each in by_output.values() if _told(each) for op in each.group}
    golden = data.golden.op_index()
    reads = (ref for op in within & golden.keys() for ref in golden[op].inputs if ref is not None)
    read = {ref.producer.op for ref in reads if ref.producer is not None} - within
    inside = beside = 0
    for item in data.comparisons:
        if item.io is not TensorIO.OUTPUT or item.compared:
            continue
        of = "" if item.golden is None else item.golden.op
        inside += of in within or item.reason is Reason.INNER_OF_SPLIT
        unmade = item.reason is Reason.INSERTED and of not in within
        beside += unmade or (of in read and item.reason is Reason.NO_TASK)
    return inside, beside


def _assumptions(splits: Splits, guilty: Sequence[Comparison]) -> Iterator[str]:
    for item in guilty:
        ref = TensorRef(item.op, item.port)
        name = splits.assumed.get(ref)
        if name is not None and ref not in splits.unsure:
            yield (
                f"{item.op} takes input {name!r} of the model, which the device did not dump: "
                "no other likely input explains the error as well as a fault of the op does"
            )


def _broken(data: RunData) -> Mapping[str, bool]:
    """The ops whose outputs are outputs of the device's model and over a limit, each with whether
    the device has NaN or infinities there."""
    ends = {ref.op for ref in data.device.outputs}
    over = [item for item in data.comparisons if item.op in ends and item.over]
    return {**dict.fromkeys((item.op for item in over), False), **nonfinite_ops(over)}


def _analysis(splits: Splits, options: RootCauseOptions) -> RunAnalysis:
    return RunAnalysis(
        options.suspect,
        options.guilty,
        splits.executor,
        arithmetic=splits.arithmetic,
        mismatches=splits.entries,
        reckonings=kept_reckonings(splits.reckonings),
    )


def kept_reckonings(found: Iterable[Reckoning]) -> tuple[Reckoning, ...]:
    """The reckonings a run keeps: the 1000 most suspicious, as they are read with every run."""
    ordered = sorted(found, key=lambda each: -each.suspicion)
    return tuple(ordered[:_MOST_RECKONINGS])


def _warnings(splits: Splits, data: RunData) -> list[str]:
    if is_recorded(data):
        return [coverage_remark(data.device, splits.by_output), *splits.remarks]
    found = [f"{unlike_input_text(each)}: no op is to blame for that" for each in splits.entries]
    failures = [
        each.failure
        for ref, each in splits.by_output.items()
        if each.failure and splits.groups[ref].source is None
    ]
    found += splits.remarks
    if failures:
        found.append(
            f"{counted(len(failures), 'tensor')} could not be recomputed; only the gain of the "
            f"error was judged there (first: {failures[0]})"
        )
    return found
