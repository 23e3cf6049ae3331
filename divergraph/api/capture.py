"""Golden dumps: run a model here and write every tensor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from divergraph.api.arguments import MIB, AnyPath, at_least_one, word
from divergraph.api.progress import ProgressOption, telling
from divergraph.golden_capture import CaptureRequest, Coverage, StandIn
from divergraph.golden_capture import capture as captured
from divergraph.golden_capture import coverage as covered
from divergraph.golden_capture.capture_model import CaptureResult
from divergraph.golden_capture.device_inputs import DeviceRun
from divergraph.golden_capture.feeds import seed_of
from divergraph.torch import check_torch
from graphstore.errors import InputError
from importers.registry import read_graph

TORCH_DEVICES = ("cpu", "cuda", "npu")
"""Where PyTorch runs a script."""


def is_seed(text: str) -> bool:
    """Whether *text*, in place of an input's file, has its values made up."""
    return seed_of(Path(text)) is not None


def capture(
    model: AnyPath,
    output: AnyPath,
    inputs: Mapping[str, AnyPath] | AnyPath | None = None,
    *,
    seed: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    from_device: tuple[AnyPath, AnyPath] | None = None,
    device: str = "fp32",
    memory: int = 1024,
    weights: AnyPath | None = None,
    checkpoint: AnyPath | None = None,
    variables: AnyPath | None = None,
    train_op: str | None = None,
    precision: str | None = None,
    replace: bool = False,
    progress: ProgressOption = None,
) -> CaptureResult:
    """Run *model* here and write every tensor it makes into the folder *output*.

    *inputs* are ``.npy``, raw ``.bin`` or ONNX ``.pb`` files by input name, one file if there is
    one input, or a file that names them (``.npz``, Polygraphy's JSON); *seed* makes random values
    for the others, with the *shapes* and *ranges* given by name (a range under ``""`` is for all);
    *from_device*, graph and dump of a device's model, gives what that was fed. *device* is ``fp32``
    for the model as it is, or ``fp16``, ``int8`` or ``optimized`` for a stand-in made of an ONNX
    model and kept in the folder. About *memory* MiB of tensors are held at once. *weights* are a
    Caffe net's, if not beside it under its name. For TensorFlow, *checkpoint* has the variables,
    *variables* a dump of their values before the step, *train_op* ends the step. With a *precision*
    of ``float64`` the model is computed in that, each result rounded once to its own type.

    Raises:
        InputError: the model or an input cannot be used, or the folder holds something.
        ExecutionError: the model cannot be run here.

    >>> import divergraph as dg
    >>> import onnx.parser
    >>> text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {y=Relu(x)}'
    >>> onnx.save(onnx.parser.parse_model(text), "relu.onnx")
    >>> found = dg.capture("relu.onnx", "golden", seed=1)
    >>> found.tensors, found.executor.partition(" ")[0]
    (1, 'onnxruntime')
    """
    request = CaptureRequest(
        Path(model),
        Path(output),
        _files(inputs),
        word(StandIn, device, "device"),
        seed,
        at_least_one(memory, "memory") * MIB,
        replace,
        options=_options(
            checkpoint=checkpoint, variables=variables, train_op=train_op, precision=precision
        ),
        weights=None if weights is None else Path(weights),
        shapes={name: tuple(sizes) for name, sizes in (shapes or {}).items()},
        ranges=dict(ranges or {}),
        device_run=None if from_device is None else DeviceRun(*map(Path, from_device)),
    )
    with telling(progress) as reporting:
        return captured(request, reporting)


def capture_torch(
    place: str,
    output: AnyPath,
    inputs: Mapping[str, AnyPath] | AnyPath | None = None,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    seed: int | None = None,
    replace: bool = False,
) -> CaptureResult:
    """Run *place*, ``script.py:name``, with PyTorch and record its calls into *output*.

    It is a ``torch.nn.Module``, a function without parameters that gives one, or a function that is
    all that runs. *inputs* are ``.npy``, ``.npz`` or ``.pt`` files by the names of parameters or
    their places (``"0"``); *device* is one of :data:`TORCH_DEVICES`; *dtype* is ``bf16``, ``fp16``,
    ``fp32`` or ``fp64``, or None for what the script says; *seed* is PyTorch's (0).

    Raises:
        InputError: the script or an input cannot be used, or the folder holds something.
        ExecutionError: PyTorch or the device is not here, or the script raises.
    """
    if device not in TORCH_DEVICES:
        hint = f"--device {' or '.join(TORCH_DEVICES)}"
        raise InputError(f"PyTorch runs on no {device}", hint=hint)
    check_torch()
    from divergraph.torch.script import TorchRequest, capture_script

    request = TorchRequest(place, Path(output), _files(inputs), device, dtype, seed, replace)
    done = capture_script(request)
    return CaptureResult(
        request.output, done.script, done.executor, done.tensors, done.bytes, left_out=()
    )


def _files(inputs: Mapping[str, AnyPath] | AnyPath | None) -> dict[str, Path]:
    paths = {"": inputs} if isinstance(inputs, str | os.PathLike) else inputs or {}
    return {name: Path(file) for name, file in paths.items()}


def _options(**options: AnyPath | None) -> dict[str, str]:
    return {name: str(value) for name, value in options.items() if value is not None}


def coverage(model: AnyPath) -> Coverage:
    """How many ops of *model* can be run here by translating them, and which cannot.

    Raises:
        InputError: the model cannot be read.
        ExecutionError: models of this framework are not translated.
    """
    return covered(read_graph(Path(model)))


def write_tfdbg_driver(path: AnyPath) -> Path:
    """Write a script that dumps a TensorFlow 1 step through tfdbg on another machine.

    Raises:
        InputError: the file is there already, or cannot be written.
    """
    place = Path(path)
    source = files("divergraph.golden_capture").joinpath("tfdbg_driver.py").read_bytes()
    try:
        with place.open("xb") as target:
            target.write(source)
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(place)) from error
    return place
