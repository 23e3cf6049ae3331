"""Blame for the outputs of a stored run, from the files it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from divergraph.blame.attribution import MOST, Blame, blame
from divergraph.blame.collected_errors import collect
from divergraph.blame.outputs import blamed_outputs, first_tensors, stand_ins, tensors_before
from divergraph.blame.recorded_calls import blame_calls
from divergraph.blame.sample import Introduced, ModelSample
from divergraph.execute.contract import (
    Additive,
    AdditiveRun,
    Array,
    Executor,
    QuantisedRead,
    Quantising,
)
from divergraph.execute.installed import open_executor
from divergraph.jobs.progress import Progress
from divergraph.rootcause.calls_alone import is_recorded
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.devices.quantisers import DEQUANTISING
from divergraph.rootcause.groups.op_graph import OpGraph, Source, source_of
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunSources
from divergraph.rootcause.stored import dumps_written_since, sources_of, with_warnings
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.contract import RunData
from graphstore.errors import ExecutionError, InputError
from graphstore.model import DeviceArithmetic, ModelGraph, Op, OutputShares, TensorIO
from graphstore.schema.codec import dumps


@dataclass(frozen=True, slots=True)
class BlameChoice:
    """At most ``keep`` ops to keep exact, at most ``most`` ops whose error is added alone.
    ``outputs`` are the golden tensors whose error is explained; empty: the model's outputs.
    ``exact`` are device ops: what if they were exact."""

    keep: int = 10
    most: int = MOST
    outputs: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()


def blame_run(
    data: RunData,
    options: RootCauseOptions,
    choice: BlameChoice,
    progress: Progress,
    others: Sequence[RunData] = (),
) -> Blame:
    """Who made the error of the golden model's outputs, in a run compared before. *others* are runs
    of the same models on other inputs: the list is then one for all of them. The model is held once
    for each run; all share the memory of *options*.

    Raises:
        InputError: a model or dump is gone or another one, or no output was compared.
        ExecutionError: the golden model cannot be run here with something added inside.
    """
    for other in others:
        if (other.golden.id, other.device.id) != (data.golden.id, data.device.id):
            raise InputError(f"run {other.run.name!r} is not of the models of {data.run.name!r}")
    if is_recorded(data):
        if others:
            raise InputError("a list for several recorded runs is not made: ask for one at a time")
        return blame_calls(data, options, choice.outputs, choice.exact, choice.keep, progress)
    options = replace(options, memory=options.memory // (1 + len(others)))
    with ExitStack() as opened:
        parts = [_blamed(run, options, choice, progress, opened) for run in (data, *others)]
        blamed = blame(
            [part.sample for part in parts],
            most=choice.most,
            keep=choice.keep,
            exact=choice.exact,
            progress=progress,
        )
    outputs = {} if choice.outputs else blamed.errors
    why_not = next((part.why_not for part in parts if part.why_not), "")
    return replace(
        blamed,
        left_out=tuple(
            dict.fromkeys(name for part in parts for name in (*part.left_out, *blamed.left_out))
        ),
        not_imitated="" if blamed.imitated else blamed.not_imitated or why_not,
        stand_ins=stand_ins(data.golden, outputs),
        warnings=(
            *_without_share(data, blamed),
            *(warning for part in parts for warning in part.warnings),
        ),
    )


def _without_share(data: RunData, blamed: Blame) -> Iterator[str]:
    """What is said of origins that have no share of their own."""
    shares = {share.op for share in blamed.shares}
    device = OpGraph(data.device)
    misshapen = {item.op for item in data.comparisons if item.misshapen}
    for origin in data.origins:
        if origin.op in shares:
            continue
        readers = [
            op.id for op in data.device.ops if op.id in shares and _reads(device, op, origin.op)
        ]
        if readers and device.ops[origin.op].type in DEQUANTISING:
            yield f"what {origin.op} loses counts as of {', '.join(readers)}, which read it"
            continue
        why = "gives another shape than is right" if origin.op in misshapen else "is to blame"
        yield (
            f"{origin.op} {why}, but its error cannot be added inside the golden model, so it has "
            "no share: what comes from no measured op may be its"
        )


def _reads(device: OpGraph, op: Op, maker: str) -> bool:
    return any(ref.producer is not None and ref.producer.op == maker for ref in device.inputs(op))


def _in_parts(data: RunData) -> frozenset[str]:
    """The outputs, by golden's names, that are damaged in parts and right as a whole."""
    damaged = data.run.result.damaged
    wholes = {output.tensor for output in damaged if not output.part}
    return frozenset(output.tensor for output in damaged) - wholes


@dataclass(frozen=True, slots=True)
class _Blamed:
    """A run as a sample; ``why_not`` says why a device that quantises cannot be emulated."""

    sample: ModelSample
    why_not: str
    left_out: Sequence[str]
    warnings: tuple[str, ...]


def _blamed(
    data: RunData,
    options: RootCauseOptions,
    choice: BlameChoice,
    progress: Progress,
    opened: ExitStack,
) -> _Blamed:
    sources = sources_of(data, progress, options.memory)
    executor = opened.enter_context(closing(open_executor(sources.golden_path, data.golden)))
    if not isinstance(executor, Additive):
        raise ExecutionError(
            f"{executor.name} cannot add an error to a tensor inside of the model",
            hint="blame works for ONNX, TensorFlow and Caffe models",
        )
    wanted = blamed_outputs(data, choice.outputs, executor.tensors)
    collected = collect(data, sources, executor, wanted, options, progress)
    outputs = collected.outputs
    if not outputs:
        raise InputError(
            "no tensor with float values near the end of the golden model was compared",
            hint="blame needs the device's dump of an output of the model, or of what is before it",
        )
    runnable = set(executor.tensors)
    items = collected.items()
    first = first_tensors(OpGraph(data.golden), {item.tensor for item in items})
    items = [replace(item, first=item.tensor in first) for item in items]
    tensors = [item.tensor for item in items if item.tensor in runnable]
    inside = _sources(data.golden, sources, runnable)
    needed = tensors_before(data.golden, outputs, inside)
    feeds = {**_feeds(executor, data.golden, sources, needed), **inside}
    readings = collected.readings.of_ops
    model, why_not = _opened(executor, feeds, tensors, tuple(outputs), readings)
    return _Blamed(
        ModelSample(model, items, outputs, options.memory, _in_parts(data)),
        why_not or _nothing_to_imitate(data.run.analysis.arithmetic, items),
        collected.left_out,
        tuple(dumps_written_since(data.run, sources.pairs)),
    )


def _opened(
    executor: Additive,
    feeds: Mapping[str, Array],
    tensors: Sequence[str],
    outputs: Sequence[str],
    readings: Sequence[QuantisedRead],
) -> tuple[AdditiveRun, str]:
    """The golden model, opened to be run with quantised operands; or why that is not possible."""
    why_not = ""
    if readings and isinstance(executor, Quantising):
        try:
            return executor.with_readings(feeds, tensors, outputs, readings), ""
        except ExecutionError as error:  # its types or its version
            why_not = str(error)
    elif readings:
        why_not = "only of ONNX models can what ops read be quantised here"
    return executor.with_additions(feeds, tensors, outputs), why_not


def _nothing_to_imitate(arithmetic: DeviceArithmetic, items: Sequence[Introduced]) -> str:
    """Why a device that quantises cannot be emulated; "" if it can be, or does not quantise."""
    in_8_bits = arithmetic.quantised or arithmetic.precision == INT8.name
    if not in_8_bits or any(item.reads for item in items):
        return ""
    return "it is not known by which scales ops that err read quantised"


def with_blame(data: RunData, blamed: Blame, answer: Mapping[str, object]) -> RunData:
    """*data* with the shares in its analysis, which origins and overviews show, with *answer*
    as ``blame --json`` does, and with the warnings of *blamed*."""
    shares = OutputShares({share.op: share.share for share in blamed.shares}, blamed.unexplained)
    analysis = replace(data.run.analysis, blame=shares, blamed=dumps(answer))
    data = replace(data, run=replace(data.run, analysis=analysis))
    return with_warnings(data, blamed.warnings)


def _feeds(
    executor: Executor, golden: ModelGraph, sources: RunSources, needed: set[str]
) -> dict[str, Array]:
    """The inputs of the golden run, from the golden dump or else from the device's. Placeholders
    are ops: their outputs were dumped."""
    feeds: dict[str, Array] = {}
    makers = {tensor.name: (op.id, p) for op in golden.ops for p, tensor in enumerate(op.outputs)}
    for tensor in executor.inputs:
        op, port = makers.get(tensor.name, ("", 0))
        for ref in (
            sources.golden_dump.graph_inputs.get(tensor.name),
            sources.golden_dump.tensors.get((op, TensorIO.OUTPUT, port)),
            sources.device_dump.graph_inputs.get(tensor.name),
        ):
            if ref is None:
                continue
            value = read_tensor(ref)
            if isinstance(value, Unread):
                raise InputError(f"the dumped input {tensor.name!r} cannot be read: {value.detail}")
            feeds[tensor.name] = value
            break
        else:
            if tensor.name not in needed:
                continue  # only another function of the graph reads it
            raise InputError(
                f"no dump holds the input {tensor.name!r} of the golden model",
                hint="capture writes it next to the other tensors",
            )
    return feeds


def _sources(golden: ModelGraph, sources: RunSources, runnable: set[str]) -> dict[str, Array]:
    """The dumped values the golden run drew at random, was fed, or read from variables."""
    graph = OpGraph(golden)
    tensors = sources.golden_dump.tensors
    values: dict[str, Array] = {}
    for op in _bringing_in(graph):
        for port, tensor in enumerate(op.outputs):
            ref = tensors.get((op.id, TensorIO.OUTPUT, port))
            if ref is None or tensor.name not in runnable:
                continue
            value = read_tensor(ref, tensor.layout)
            if not isinstance(value, Unread):  # else it is computed
                values[tensor.name] = value
    return values


def _bringing_in(graph: OpGraph) -> Iterator[Op]:
    """The ops that bring in values: reads of variables count, a Dropout of its input does not."""
    for op in graph.graph.ops:
        source = source_of(op)
        if source is None and op.type == "Identity" and op.inputs and op.inputs[0] is not None:
            read = op.inputs[0].producer
            source = None if read is None else source_of(graph.ops[read.op])
            source = source if source is Source.VARIABLE else None
        if source is Source.ENTRY or (source is not None and op.id not in graph.fed):
            yield op
