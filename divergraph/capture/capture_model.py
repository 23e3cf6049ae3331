"""Run a model and keep every tensor it makes as a file."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from divergraph import __version__
from divergraph.capture.feeds import missing_inputs, random_feeds, read_feeds
from divergraph.capture.file_names import MAPPING, FileNames
from divergraph.capture.stand_ins import StandIn, make_stand_in
from divergraph.execution.contract import DEFAULT_MEMORY, Array, Executor, Unavailable
from divergraph.execution.installed import open_executor
from divergraph.export.npy_file import write_npy
from divergraph.progress import NO_PROGRESS, Progress
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Framework, ModelGraph
from importers.registry import read_graph

MANIFEST = "capture.json"


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """What to capture: *inputs* are files by input name, *seed* makes up the missing ones."""

    model: Path
    output: Path
    inputs: Mapping[str, Path] = field(default_factory=dict)
    device: StandIn = StandIn.FP32
    seed: int | None = None
    memory: int = DEFAULT_MEMORY
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """What a capture wrote: *model* is the file that was run, *folder* holds the dump."""

    folder: Path
    model: Path
    executor: str
    tensors: int
    bytes: int
    left_out: tuple[Unavailable, ...]


def capture(request: CaptureRequest, progress: Progress = NO_PROGRESS) -> CaptureResult:
    """Run the model on its inputs and write every tensor as ``.npy`` into the output folder.

    The folder appears complete or not at all. With a stand-in, the model that was run
    lies in it too.

    Raises:
        InputError: a model, input or folder that cannot be used; nothing is written.
    """
    _check_place(request)
    progress.stage("reading the model")
    graph = read_graph(request.model)
    feeds = _feeds(request, graph)
    with _appearing(request.output) as folder:
        model = request.model
        if request.device is not StandIn.FP32:
            progress.stage(f"making the {request.device} model")
            model = _stand_in(request, graph, folder, feeds)
            graph = read_graph(model)
        executor = open_executor(model, graph)
        try:
            result = _write_all(request, graph, executor, feeds, folder, model, progress)
        finally:
            executor.close()
    if model != request.model:
        model = request.output / model.name
    return CaptureResult(
        request.output, model, result.executor, result.tensors, result.bytes, result.left_out
    )


def _feeds(request: CaptureRequest, graph: ModelGraph) -> dict[str, Array]:
    files = dict(request.inputs)
    if set(files) == {""} and len(graph.inputs) == 1:
        files = {graph.inputs[0].name: files[""]}
    elif "" in files:
        raise InputError(
            f"{files['']} is the value of which input?",
            hint="--inputs NAME=FILE with one of: " + ", ".join(each.name for each in graph.inputs),
        )
    feeds = read_feeds(graph.inputs, files)
    if request.seed is not None:
        rest = [tensor for tensor in graph.inputs if tensor.name not in feeds]
        feeds |= random_feeds(rest, request.seed)
    error = missing_inputs(graph.inputs, feeds)
    if error is not None:
        raise error
    return feeds


def _stand_in(
    request: CaptureRequest, graph: ModelGraph, folder: Path, feeds: Mapping[str, Array]
) -> Path:
    if graph.framework is not Framework.ONNX:
        raise ExecutionError(
            f"there is no {request.device} stand-in for {graph.framework} models",
            where=str(request.model),
            hint="convert the model to ONNX",
        )
    target = folder / f"{request.model.stem}.{request.device}.onnx"
    make_stand_in(request.model, request.device, target, feeds)
    return target


def _write_all(
    request: CaptureRequest,
    graph: ModelGraph,
    executor: Executor,
    feeds: Mapping[str, Array],
    folder: Path,
    model: Path,
    progress: Progress,
) -> CaptureResult:
    names = FileNames(graph, time.time_ns() // 1000)
    files = _files_of_tensors(graph, names, set(executor.tensors))
    progress.stage("running", len(files))
    written = 0
    inputs: dict[str, str] = {}
    for name, value in feeds.items():
        inputs[name] = names.of_input(name)
        written += _save(folder / inputs[name], value)
    for name, value in executor.run(feeds, tuple(files), memory=request.memory):
        written += _save(folder / files[name], value)
        progress.step(1, name)
    unclear = [Unavailable(name, "no file name tells it from others") for name in names.unclear]
    mapping = names.mapping()
    if mapping:
        (folder / MAPPING).write_text(mapping, encoding="utf-8")
    left_out = (*executor.unavailable, *_inner(graph), *unclear)
    result = CaptureResult(folder, model, executor.name, len(files), written, left_out)
    _write_manifest(request, result, inputs)
    return result


def _files_of_tensors(graph: ModelGraph, names: FileNames, known: set[str]) -> dict[str, str]:
    """The file of each tensor of the root graph that the executor can give."""
    files: dict[str, str] = {}
    for op in graph.ops:
        for port, tensor in enumerate(op.outputs):
            if not op.subgraph and tensor.name in known and tensor.name not in files:
                files[tensor.name] = names.of_output(op, port)
    return files


def _inner(graph: ModelGraph) -> Iterator[Unavailable]:
    for body in graph.subgraphs:
        yield Unavailable(body.name, "what happens inside a body is not given out")


def _save(path: Path, value: Array) -> int:
    try:
        return write_npy(path, value)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror or error}", where=str(path)) from error


def _write_manifest(
    request: CaptureRequest, result: CaptureResult, inputs: Mapping[str, str]
) -> None:
    shape = {
        "divergraph": __version__,
        "model": str(request.model),
        "sha256": hashlib.sha256(request.model.read_bytes()).hexdigest()
        if request.model.is_file()
        else None,
        "device": request.device.value,
        "executor": result.executor,
        "ran": result.model.name,
        "inputs": dict(inputs),
        "seed": request.seed,
        "tensors": result.tensors,
        "bytes": result.bytes,
        "left_out": [{"tensor": each.tensor, "reason": each.reason} for each in result.left_out],
    }
    text = json.dumps(shape, indent=2, ensure_ascii=False)
    (result.folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")


def _check_place(request: CaptureRequest) -> None:
    place = request.output
    if place.is_dir() and not any(place.iterdir()):
        return
    if place.exists() and not (request.replace and (place / MANIFEST).is_file()):
        hint = "use another folder, or --replace to write over an earlier capture"
        raise InputError("there is something here already", where=str(place), hint=hint)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """A folder that becomes *target* at the end, and vanishes if anything fails."""
    draft = target.parent / f".{target.name}-{secrets.token_hex(4)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
    except OSError as error:
        raise InputError(f"cannot write here: {error.strerror}", where=str(target)) from error
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
