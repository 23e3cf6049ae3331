"""Run a model and keep every tensor it makes as a file."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from divergraph.execute.contract import DEFAULT_MEMORY, Array, Executor, Unavailable, checked_feed
from divergraph.execute.installed import open_executor
from divergraph.execute.stand_ins import StandIn, make_stand_in
from divergraph.files.dump_names import DumpFileNames
from divergraph.files.npy_file import write_npy
from divergraph.files.os_errors import os_errors_told
from divergraph.golden_capture.branches import Branches, Save
from divergraph.golden_capture.device_inputs import DeviceRun, fed_to_device, held_by_device
from divergraph.golden_capture.feeds import (
    MadeUp,
    check_fed,
    random_feeds,
    read_feeds,
    seed_of,
    seeded_feeds,
    shaped,
)
from divergraph.golden_capture.named_inputs import full_name
from divergraph.inputs.sources import weights_option
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.version import __version__
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Framework, ModelGraph, Op, Tensor
from importers.dumps.names import CAPTURED
from importers.registry import read_graph


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What to capture: *inputs* are files by input name, *seed* makes up the missing ones,
    *weights* are those of a Caffe net. *shapes* and *ranges* are for what is made up
    (see :class:`MadeUp`). Inputs that have no file are those in the dump of *device_run*.

    *options* are for the framework's executor (see ``options`` of its factory). Values of
    *inputs* that are other tensors of a TensorFlow graph take the place of those.
    """

    model: Path
    output: Path
    inputs: Mapping[str, Path] = field(default_factory=dict)
    device: StandIn = StandIn.FP32
    seed: int | None = None
    memory: int = DEFAULT_MEMORY
    replace: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    weights: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    device_run: DeviceRun | None = None


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """What a capture wrote: *model* is the file that was run, *folder* holds the dump.

    *guessed* names inputs whose unknown sizes were taken as 1, *nonfinite* the tensors with a NaN
    or an infinity that the inputs reach, in the order they were made. *notes* are remarks on the
    inputs.
    """

    folder: Path
    model: Path
    executor: str
    tensors: int
    bytes: int
    left_out: tuple[Unavailable, ...]
    guessed: tuple[str, ...] = ()
    nonfinite: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Fed:
    """The values of inputs; ``guessed`` names those whose unknown sizes were taken as 1."""

    values: Mapping[str, Array]
    guessed: tuple[str, ...]
    notes: tuple[str, ...]


def capture(request: CaptureRequest, progress: Progress = NO_PROGRESS) -> CaptureResult:
    """Run the model on its inputs and write every tensor as ``.npy`` into the output folder.

    The folder appears complete or not at all. With a stand-in, the model that was run
    lies in it too.

    Raises:
        InputError: a model, input or folder that cannot be used; nothing is written.
    """
    _check_place(request)
    progress.stage("reading the model")
    graph = read_graph(request.model, weights_option(request.weights))
    if request.device is not StandIn.FP32 and graph.framework is not Framework.ONNX:
        raise ExecutionError(
            f"there is no {request.device} stand-in for {graph.framework} models",
            where=str(request.model),
            hint="convert the model to ONNX",
        )
    with ExitStack() as opened:
        if request.device is not StandIn.FP32 and request.options.get("precision"):
            raise InputError("a stand-in has its own precision", hint="leave --precision out")
        executor: Executor | None = None
        inputs = graph.inputs
        if request.device is StandIn.FP32:
            executor = _opened(request, graph)
            opened.callback(executor.close)
            inputs = executor.inputs
        inputs = shaped(inputs, request.shapes)
        fed = _feeds(request, inputs)
        folder = opened.enter_context(_appearing(request.output))
        opened.enter_context(_guesses_named(fed.guessed))
        model = request.model
        if executor is None:
            progress.stage(f"making the {request.device} model")
            model = folder / f"{model.stem}.{request.device}.onnx"
            make_stand_in(request.model, request.device, model, fed.values)
            graph = read_graph(model)
            executor = open_executor(model, graph)
            opened.callback(executor.close)
        result = _write_all(request, graph, executor, fed.values, folder, model, progress)
    if model != request.model:
        model = request.output / model.name
    return replace(result, folder=request.output, model=model, guessed=fed.guessed, notes=fed.notes)


def _opened(request: CaptureRequest, graph: ModelGraph) -> Executor:
    """What runs the model. What it draws or fetches is given to it, where the device's dump has
    it: both sides go on from the same numbers."""
    options = _options(request, graph)
    executor = open_executor(request.model, graph, options)
    if request.device_run is None or graph.framework is not Framework.TENSORFLOW:
        return executor
    missing = {unavailable.tensor for unavailable in executor.unavailable}
    first = [
        op.outputs[0]
        for op in graph.ops
        if op.outputs and op.outputs[0].name in missing and not op.subgraph
        if not any(ref is not None and ref.tensor in missing for ref in op.inputs)
    ]
    tensors_on_device = held_by_device(first, request.device_run) if first else []
    if not tensors_on_device:
        return executor
    executor.close()
    fed = [options["feed"]] if "feed" in options else []
    return open_executor(
        request.model, graph, {**options, "feed": ",".join([*fed, *tensors_on_device])}
    )


def _options(request: CaptureRequest, graph: ModelGraph) -> dict[str, str]:
    """The executor's options; what is fed and is no input of the graph is one of them."""
    options = dict(request.options)
    if graph.framework is Framework.TENSORFLOW:
        inputs = {tensor.name for tensor in graph.inputs}
        tensors = {tensor.name for op in graph.ops if not op.subgraph for tensor in op.outputs}
        named = (full_name(name, tensors) for name in request.inputs)
        inner = sorted(name for name in named if name in tensors - inputs)
        if inner:
            options["feed"] = ",".join(inner)
    return options


def _feeds(request: CaptureRequest, inputs: Sequence[Tensor]) -> _Fed:
    """The values of all inputs."""
    seeds = _seeds(request, inputs)
    paths = {name: file for name, file in request.inputs.items() if seed_of(file) is None}
    feeds, notes = read_feeds(inputs, paths)
    if twice := feeds.keys() & {full_name(name, feeds) for name in seeds}:
        raise InputError(f"two values for input {min(twice)!r}")
    files = set(feeds)
    feeds |= seeded_feeds(inputs, seeds, request.ranges)
    if request.device_run is not None:
        rest = [tensor for tensor in inputs if tensor.name not in feeds]
        fed, remarks = fed_to_device(rest, request.device_run)
        notes += remarks
        feeds |= {tensor.name: checked_feed(tensor, fed[tensor.name]) for tensor in rest}
        files |= set(fed)
    if request.seed is not None:
        rest = [tensor for tensor in inputs if tensor.name not in feeds]
        others = {name: ends for name, ends in request.ranges.items() if name not in seeds}
        feeds |= random_feeds(rest, MadeUp(request.seed, others))
    elif (request.ranges or (request.shapes and not files)) and not seeds:
        raise InputError("shapes and ranges are for values that are made up", hint="--random SEED")
    check_fed(inputs, feeds)
    guessed = (
        tensor.name
        for tensor in inputs
        if tensor.name not in files and tensor.shape and None in tensor.shape
    )
    return _Fed(feeds, tuple(guessed), notes)


def _seeds(request: CaptureRequest, inputs: Sequence[Tensor]) -> dict[str, int]:
    """The seeds of inputs that have one of their own."""
    seeds: dict[str, int] = {}
    for name, file in request.inputs.items():
        seed = seed_of(file)
        if seed is not None and not name and len(inputs) != 1:
            listed = ", ".join(tensor.name for tensor in inputs)
            hint = f"--inputs NAME={file} with one of: {listed}; --random {seed} makes up all"
            raise InputError(f"{file} is the value of which input?", hint=hint)
        if seed is not None:
            seeds[name or inputs[0].name] = seed
    return seeds


@contextmanager
def _guesses_named(guessed: Sequence[str]) -> Iterator[None]:
    """Add to what goes wrong that sizes were made up: the likeliest cause."""
    try:
        yield
    except ExecutionError as error:
        if not guessed or error.hint:
            raise
        hint = f"the unknown sizes of {', '.join(guessed)} were taken as 1: give --shape NAME=SIZES"
        raise ExecutionError(error.what, where=error.where, hint=hint) from error


def _write_all(
    request: CaptureRequest,
    graph: ModelGraph,
    executor: Executor,
    feeds: Mapping[str, Array],
    folder: Path,
    model: Path,
    progress: Progress,
) -> CaptureResult:
    names = DumpFileNames(graph, time.time_ns() // 1000)
    files = _files_of_tensors(graph, names, set(executor.tensors))
    progress.stage("running", len(files))
    written = 0
    inputs: dict[str, str] = {}
    producers = {
        tensor.name: (op, port)
        for op in graph.ops
        for port, tensor in enumerate(op.outputs)
        if tensor.name in feeds and not op.subgraph
    }
    for name, value in feeds.items():
        inputs[name] = (
            names.of_output(*producers[name]) if name in producers else names.of_input(name)
        )
        written += _save(folder / inputs[name], value)
    tensors = 0
    nonfinite: list[str] = []
    of_inputs = _of_inputs(graph, feeds.keys())
    for name, value in executor.run(feeds, tuple(files), memory=request.memory):
        if name in of_inputs and value.dtype.kind in "fc" and not np.isfinite(value).all():
            nonfinite.append(name)
        written += _save(folder / files[name], value)
        tensors += 1
        progress.step(1, name)
    inner = list(_inner(graph, executor))
    if graph.framework is Framework.ONNX:
        branches = Branches(model, graph, _saving(folder, names), request.memory)
        places = {name: folder / file for name, file in {**inputs, **files}.items()}
        tensors += branches.run({name: at for name, at in places.items() if at.exists()})
        inner = branches.left_out
    unclear = [Unavailable(name, "no file name tells it from others") for name in names.unclear]
    names.write_mapping(folder)
    left_out = (*executor.unavailable, *inner, *unclear)
    result = CaptureResult(
        folder, model, executor.name, tensors, written, left_out, nonfinite=tuple(nonfinite)
    )
    _write_manifest(request, result, inputs, files)
    return result


def _of_inputs(graph: ModelGraph, fed: Collection[str]) -> set[str]:
    """The tensors that the inputs *fed* reach; those of bodies among them. Others are the same for
    all inputs, as a mask of -inf is."""
    tensors = set(fed)
    readers: dict[str, list[Op]] = {}
    for op in graph.ops:
        for source in op.inputs:
            if source is not None:
                readers.setdefault(source.tensor, []).append(op)
    waiting = [op for name in fed for op in readers.get(name, ())]
    waiting += [op for op in graph.ops if op.subgraph]
    while waiting:
        for tensor in waiting.pop().outputs:
            if tensor.name not in tensors:
                tensors.add(tensor.name)
                waiting += readers.get(tensor.name, ())
    return tensors


def _files_of_tensors(
    graph: ModelGraph, names: DumpFileNames, captured: set[str]
) -> dict[str, str]:
    """The file of each tensor that the executor can give.

    In ONNX, tensors of bodies may be called as others of the root graph; TensorFlow's are not.
    """
    files: dict[str, str] = {}
    inner = graph.framework is Framework.TENSORFLOW
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if (inner or not op.subgraph) and tensor.name in captured and tensor.name not in files:
                files[tensor.name] = names.of_output(op, port)
    return files


def _inner(graph: ModelGraph, executor: Executor) -> Iterator[Unavailable]:
    """The bodies of whose tensors *executor* says nothing."""
    opened: set[str] = set()
    if graph.framework is Framework.TENSORFLOW:
        listed = {*executor.tensors, *(unavailable.tensor for unavailable in executor.unavailable)}
        inside = (op for op in graph.ops if op.subgraph)
        opened = {op.subgraph for op in inside if any(t.name in listed for t in op.outputs)}
    for body in graph.subgraphs:
        if body.name not in opened:
            yield Unavailable(body.name, "what happens inside a body is not given out")


def _saving(folder: Path, names: DumpFileNames) -> Save:
    """Saves outputs in *folder*; says None of those whose file could not be told from others."""

    def save(op: Op, port: int, value: Array) -> Path | None:
        unclear = len(names.unclear)
        path = folder / names.of_output(op, port)
        if len(names.unclear) > unclear:
            return None
        _save(path, value)
        return path

    return save


def _save(path: Path, value: Array) -> int:
    with os_errors_told("cannot write", path):
        return write_npy(path, value)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(
    request: CaptureRequest,
    result: CaptureResult,
    inputs: Mapping[str, str],
    files: Mapping[str, str],
) -> None:
    shape = {
        "divergraph": __version__,
        "model": str(request.model),
        "sha256": _digest(request.model) if request.model.is_file() else None,
        "device": request.device.value,
        "executor": result.executor,
        "ran": result.model.name,
        "inputs": dict(inputs),
        "files": dict(files),
        "seed": request.seed,
        "seeds": {
            name: seed
            for name, file in request.inputs.items()
            if (seed := seed_of(file)) is not None
        },
        "options": dict(request.options),
        "tensors": result.tensors,
        "bytes": result.bytes,
        "left_out": [
            {"tensor": unavailable.tensor, "reason": unavailable.reason}
            for unavailable in result.left_out
        ],
    }
    text = json.dumps(shape, indent=2, ensure_ascii=False)
    (result.folder / CAPTURED).write_text(f"{text}\n", encoding="utf-8")


def _check_place(request: CaptureRequest) -> None:
    place = request.output
    if place.is_dir() and not any(place.iterdir()):
        return
    if place.exists() and not (request.replace and (place / CAPTURED).is_file()):
        hint = "use another folder, or --replace to write over an earlier capture"
        raise InputError("there is something here already", where=str(place), hint=hint)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A folder that becomes *target* at the end, and vanishes if anything fails."""
    draft = target.parent / f".{target.name}-{secrets.token_hex(4)}"
    with os_errors_told("cannot write here", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
    try:
        yield draft
        if target.exists():
            old = target.parent / f".{target.name}-{secrets.token_hex(4)}"
            target.rename(old)
            draft.rename(target)
            shutil.rmtree(old)
        else:
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
