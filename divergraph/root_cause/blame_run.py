"""Blame for the outputs of a stored run, from the files it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from divergraph.execution.contract import (
    Additive,
    AdditiveRun,
    Array,
    Executor,
    Quantising,
    Reading,
)
from divergraph.execution.installed import open_executor
from divergraph.progress import Progress
from divergraph.root_cause.analysis import split_run
from divergraph.root_cause.blame import MOST, Blame, Introduced, blame
from divergraph.root_cause.blame_readings import (
    NO_READINGS,
    Readings,
    find_readings,
    looked_through,
)
from divergraph.root_cause.blamed_outputs import (
    blamed_outputs,
    first_tensors,
    stand_ins,
    tensor_names,
    tensors_before,
)
from divergraph.root_cause.device_constants import DeviceConstants
from divergraph.root_cause.explaining import Judged
from divergraph.root_cause.floors import Floors
from divergraph.root_cause.limits import RootCauseOptions
from divergraph.root_cause.op_graph import OpGraph, Source, source_of
from divergraph.root_cause.precision import Precision, precision_of, rounded
from divergraph.root_cause.run import RunSources
from divergraph.root_cause.run_inputs import RunInputs
from divergraph.root_cause.stored import dumps_written_since, sources_of, with_warnings
from graphstore.contract import RunData
from graphstore.errors import ExecutionError, ImportFormatError, InputError
from graphstore.model import ModelGraph, Op, TensorIO
from importers.dumps.read import read_array
from importers.layouts.tables import LayoutError

_NOTHING = 1e-6
"""Relatively to the largest value: what adding in another order makes."""


@dataclass(frozen=True, slots=True)
class BlameChoice:
    """``keep`` ops to keep exact at most, ``most`` ops looked at one by one.

    ``outputs`` are the golden tensors whose error is asked for; none: the model's outputs.
    """

    keep: int = 10
    most: int = MOST
    outputs: tuple[str, ...] = ()


def blame_run(
    data: RunData, options: RootCauseOptions, choice: BlameChoice, progress: Progress
) -> Blame:
    """Who made the error of the golden model's outputs in a run compared before.

    Raises:
        InputError: a model or dump is gone or another one, or no output was compared.
        ExecutionError: the golden model cannot be run here with something added inside.
    """
    sources = sources_of(data, progress, options.memory)
    with closing(open_executor(sources.golden_path, data.golden)) as executor:
        if not isinstance(executor, Additive):
            raise ExecutionError(
                f"{executor.name} cannot add an error to a tensor inside of the model",
                hint="blame works for ONNX and TensorFlow models",
            )
        wanted = blamed_outputs(data, choice.outputs, executor.tensors)
        collected = _collect(data, sources, executor, wanted, options, progress)
        outputs = collected.outputs
        if not outputs:
            raise InputError(
                "no tensor with float values near the end of the golden model was compared",
                hint="blame needs the device's dump of an output of the model, or of what is "
                "before it",
            )
        known = set(executor.tensors)
        items = collected.items()
        first = first_tensors(OpGraph(data.golden), {each.tensor for each in items})
        items = [replace(each, first=each.tensor in first) for each in items]
        tensors = [each.tensor for each in items if each.tensor in known]
        inside = _sources(data.golden, sources, known)
        needed = tensors_before(data.golden, outputs, inside)
        feeds = {**_feeds(executor, sources, needed), **inside}
        readings = collected.readings.of_ops
        model, why_not = _opened(executor, feeds, tensors, tuple(outputs), readings)
        why_not = why_not or _nothing_to_imitate(collected.precision, items)
        found = blame(
            model,
            items,
            outputs,
            most=choice.most,
            keep=choice.keep,
            memory=options.memory,
            progress=progress,
        )
        return replace(
            found,
            left_out=(*collected.left_out, *found.left_out),
            not_imitated="" if found.imitated else found.not_imitated or why_not,
            stand_ins=frozenset() if choice.outputs else stand_ins(data.golden, outputs),
            warnings=tuple(dumps_written_since(data.run, sources.pairs)),
        )


def _opened(
    executor: Additive,
    feeds: Mapping[str, Array],
    tensors: Sequence[str],
    outputs: Sequence[str],
    readings: Sequence[Reading],
) -> tuple[AdditiveRun, str]:
    """The golden model, open for what the device reads quantised; or why it is not."""
    why_not = ""
    if readings and isinstance(executor, Quantising):
        try:
            return executor.with_readings(feeds, tensors, outputs, readings), ""
        except ExecutionError as error:  # its types or its version
            why_not = str(error)
    elif readings:
        why_not = "only of ONNX models can what ops read be quantised here"
    return executor.with_additions(feeds, tensors, outputs), why_not


def _nothing_to_imitate(precision: Precision | None, items: Sequence[Introduced]) -> str:
    """Why a device of that *precision* is not imitated for all that; "" if it can be."""
    if precision is not Precision.INT8 or any(each.reads for each in items):
        return ""
    return "it is not known by which scales ops that err read quantised"


def with_blame(data: RunData, found: Blame) -> RunData:
    """*data* with the shares in its analysis, for origins and overviews to show; warned as
    *found* is."""
    kept = {
        "shares": [{"op": each.op, "share": each.share} for each in found.shares],
        "unexplained": found.unexplained,
    }
    analysis = {**(data.run.analysis or {}), "blame": kept}
    data = replace(data, run=replace(data.run, analysis=analysis))
    return with_warnings(data, found.warnings)


@dataclass
class _Collected:
    """Introduced errors as they come by, the largest kept within *memory* bytes."""

    names: Mapping[str, str]
    memory: int
    wanted: frozenset[str]
    precision: Precision | None = None
    """That of the device's run, for tensors that do not tell."""
    quantised: Floors | None = None
    """What runs groups with what they read quantised."""
    readings: Readings = NO_READINGS
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

    def see(self, judged: Judged) -> None:
        """Keep the error of one device output."""
        group, split = judged.group, judged.split
        self._taken.update(feed.tensor for feed in group.feeds if feed.device is not None)
        tensor = self.names.get(str(group.golden), "")
        if tensor in self.wanted and judged.device.dtype.kind == "f":
            shaped = np.asarray(judged.device).reshape(judged.golden.shape)
            self.outputs[tensor] = shaped  # of several, the last: what leaves the device
        if not tensor or not split.introduced or judged.device.dtype.kind not in "fiu":
            return
        error = _apart(judged.device, judged.reference, judged.reference)
        # One golden tensor may be several on the device: computed, then quantised or cast.
        # Those errors add up; copies made twice of the same count once.
        step = (tensor, None if group.passes_on is None else str(group.passes_on))
        if step in self._steps:
            return
        self._steps.add(step)
        self._note_readings(tensor, judged, error)
        if tensor in self._errors:
            error = error + self._errors[tensor]
        self._errors[tensor] = error
        self._note_rounding(tensor, judged)
        known = self._found.get(tensor)
        if known is None or split.introduced > known.error:
            self._found[tensor] = Introduced(
                op=group.output.op,
                port=group.output.port,
                tensor=tensor,
                group=group.ops or (known.group if known else ()),
                error=split.introduced,
                suspicion=split.suspicion or 0.0,
                values=partial(self._errors.__getitem__, tensor),
                handed_on=partial(self._roundings.get, tensor),
                beyond=partial(self._beyond.get, tensor),
            )
        while self._held() > self.memory:
            least = min(self._found, key=lambda name: self._found[name].error)
            del self._found[least], self._errors[least]
            self.left_out.append(least)
            self._roundings.pop(least, None)
            self._beyond.pop(least, None)

    def _note_rounding(self, tensor: str, judged: Judged) -> None:
        """What an exact result still loses: compilers hand it on in the device's own type."""
        precision = precision_of(judged.device, None) or self.precision
        if judged.device.dtype == np.float16:
            precision = Precision.FP16
        if precision not in (Precision.FP16, Precision.BF16):
            return
        reference = np.asarray(judged.reference, np.float32)
        with np.errstate(all="ignore"):
            lost = rounded(reference, precision) - reference
        self._roundings[tensor] = np.where(np.isfinite(reference), lost, np.float32(0))

    def _note_readings(self, tensor: str, judged: Judged, error: Array) -> None:
        """What of the *error* of an output is by quantising what its ops read, and what is not."""
        golden = self.readings.makers
        reads = tuple(golden[op_id] for op_id in judged.group.ops if op_id in golden)
        beyond = error
        if reads and self.quantised is not None:
            (made,) = self.quantised.emulated([judged.group], [judged.inputs])
            if made is None or made.size != error.size:
                reads = ()
            else:
                beyond = _apart(judged.device, made.reshape(error.shape), judged.reference)
        self._reads[tensor] = (*self._reads.get(tensor, ()), *reads)
        known = self._beyond.get(tensor)
        if known is not None:
            self._beyond[tensor] = known + beyond
        elif np.any(np.abs(beyond) > _NOTHING * np.max(np.abs(judged.device), initial=0.0)):
            self._beyond[tensor] = beyond

    def _held(self) -> int:
        held = (*self._errors.values(), *self._roundings.values(), *self._beyond.values())
        return sum(each.nbytes for each in held)

    def items(self) -> list[Introduced]:
        """What was kept and went on: errors some group took over, or of outputs.

        The others are part of what comes behind, where the group reaches over them.
        """
        counted = self._taken | self.wanted
        found = [each for each in self._found.values() if each.tensor in counted]
        return [replace(each, reads=self._reads.get(each.tensor, ())) for each in found]


def _apart(device: Array, expected: Array, reference: Array) -> Array:
    """device - expected; 0 where the *reference* is infinite by its inputs, or explained away:
    that is nothing the op itself makes."""
    with np.errstate(all="ignore"):
        error = np.subtract(device, expected, dtype=np.float32)
    return np.where(np.isfinite(reference) & np.isfinite(expected), error, np.float32(0))


def _collect(
    data: RunData,
    sources: RunSources,
    executor: Executor,
    wanted: frozenset[str],
    options: RootCauseOptions,
    progress: Progress,
) -> _Collected:
    said = data.run.analysis.get("precision")
    precision = Precision(str(said)) if said in list(Precision) else None
    names = tensor_names(data.golden)
    with DeviceConstants(sources.device_path, data.device) as constants:
        readings = find_readings(data, constants.value)
        graph, kind = OpGraph(data.golden), Precision.INT8
        floors = Floors(executor, graph, kind, options.memory, readings.quantisers, plain=True)
        collected = _Collected(names, options.memory // 2, wanted, precision, floors, readings)
        inputs = RunInputs(
            data.golden,
            data.device,
            sources.golden_dump,
            sources.device_dump,
            sources.pairs,
            looked_through(data, readings),
            data.links,
            constants.value,
        )
        split_run(inputs, executor, options, progress, collected.see)
    return collected


def _feeds(executor: Executor, sources: RunSources, needed: set[str]) -> dict[str, Array]:
    """What the golden run was fed, by the golden dump; else what the device was."""
    found: dict[str, Array] = {}
    for tensor in executor.inputs:
        for index in (sources.golden_dump, sources.device_dump):
            ref = index.graph_inputs.get(tensor.name)
            if ref is None:
                continue
            try:
                found[tensor.name] = read_array(ref)
            except (ImportFormatError, LayoutError) as error:
                said = f"the dumped input {tensor.name!r} cannot be read: {error}"
                raise InputError(said) from None
            break
        else:
            if tensor.name not in needed:
                continue  # only what else the graph can do takes it
            raise InputError(
                f"no dump holds the input {tensor.name!r} of the golden model",
                hint="capture writes it beside the other tensors",
            )
    return found


def _sources(golden: ModelGraph, sources: RunSources, known: set[str]) -> dict[str, Array]:
    """What the golden run drew, was fed and read of its variables, where it was dumped."""
    graph = OpGraph(golden)
    tensors = sources.golden_dump.tensors
    found: dict[str, Array] = {}
    for op in _bringing_in(graph):
        for port, tensor in enumerate(op.outputs):
            ref = tensors.get((op.id, TensorIO.OUTPUT, port))
            if ref is None or tensor.name not in known:
                continue
            try:
                found[tensor.name] = read_array(ref)
            except (ImportFormatError, LayoutError):
                continue  # then it is computed
    return found


def _bringing_in(graph: OpGraph) -> Iterator[Op]:
    """The ops that bring in values; a read variable is one, a Dropout on its input is none."""
    for op in graph.graph.ops:
        source = source_of(op)
        if source is None and op.type == "Identity" and op.inputs and op.inputs[0] is not None:
            read = op.inputs[0].producer
            source = None if read is None else source_of(graph.ops[read.op])
            source = source if source is Source.VARIABLE else None
        if source is Source.ENTRY or (source is not None and op.id not in graph.fed):
            yield op
