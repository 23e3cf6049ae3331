"""Run a model or function of a script, and record what it does: ``capture --torch``."""

from __future__ import annotations

import importlib
import inspect
import os
import runpy
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from divergraph.files.os_errors import os_errors_told
from divergraph.torch.recorder import recording
from graphstore.errors import ExecutionError, InputError

TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}
_SEED = 0


@dataclass(frozen=True, slots=True)
class TorchRequest:
    """What to run: *place* is ``script.py:name``, *inputs* are files by the names of parameters; a
    name that is empty or a number is a place. *dtype* is one of :data:`TYPES`, *seed* that of
    PyTorch."""

    place: str
    output: Path
    inputs: Mapping[str, Path]
    device: str = "cpu"
    dtype: str | None = None
    seed: int | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was run by which version of PyTorch, and how many tensors of how many bytes it took."""

    script: Path
    executor: str
    tensors: int
    bytes: int


def capture_script(request: TorchRequest) -> Recorded:
    """Run what the request names and record it.

    A module is called with the inputs, once, forward. So is what a function without parameters
    gives, if it is a module. Any other function is called with the inputs and is all that runs: a
    step of training, say. It finds device and type in its inputs: what draws weights elsewhere or
    in another type draws others.

    Raises:
        InputError: no such script, name, input or type; or something is in the output's place.
        ExecutionError: no such device here, or what is run raises.
    """
    script, _, name = request.place.rpartition(":")
    if not script or not name:
        raise InputError(f"{request.place!r} names no model", hint="--torch script.py:model")
    device = _device(request.device)
    dtype = None if request.dtype is None else TYPES[request.dtype]
    torch.manual_seed(_SEED if request.seed is None else request.seed)
    _clear(request)
    path = Path(script)
    with _own_errors(request.place), _imports_from(path.parent):
        run = _named(path, name)
        is_maker = not isinstance(run, torch.nn.Module) and not inspect.signature(run).parameters
        if is_maker and request.inputs:
            run = run()
        inputs = _inputs(request, device, dtype)
        model = run.to(device, dtype) if isinstance(run, torch.nn.Module) else None
        places = [inputs.pop(key) for key in sorted(inputs) if not key or key.isdecimal()]
        with recording(request.output, model) as record:
            if isinstance(run(*places, **inputs), torch.nn.Module):
                raise InputError(
                    "the function gives a model, which is called with inputs",
                    where=request.place,
                    hint="--inputs NAME=FILE",
                )
    return Recorded(
        path, f"torch {torch.__version__} on {request.device}", record.tensors, record.bytes
    )


def _named(path: Path, name: str) -> Any:
    """The object called *name* of the script at *path*."""
    if not path.is_file():
        raise InputError("no such script", where=str(path), hint="--torch script.py:model")
    names = runpy.run_path(str(path), run_name=path.stem)
    if name not in names:
        hint = ", ".join(sorted(key for key, value in names.items() if callable(value))[:8])
        raise InputError(f"the script has no {name!r}", where=str(path), hint=f"it has {hint}")
    found = names[name]
    if not callable(found):
        raise InputError("neither a torch.nn.Module nor a function", where=f"{path}:{name}")
    return found


def _device(name: str) -> torch.device:
    if name == "npu":
        try:
            importlib.import_module("torch_npu")
        except ImportError as error:
            raise ExecutionError(
                "torch_npu is not installed", hint="the NPU needs Ascend's package torch_npu"
            ) from error
    if name != "cpu" and not getattr(torch, name).is_available():
        raise ExecutionError(f"PyTorch has no {name} here", hint="--device cpu")
    return torch.device(name)


def _inputs(
    request: TorchRequest, device: torch.device, dtype: torch.dtype | None
) -> dict[str, Any]:
    """The inputs as tensors on the device; real numbers in the type of the model."""
    tensors: dict[str, Any] = {}
    for name, file in request.inputs.items():
        for inner, value in _read(file).items():
            key = inner or name
            if key in tensors:
                raise InputError(f"two values for input {key!r}", where=str(file))
            tensors[key] = value.to(device, dtype if value.is_floating_point() else None)
    return tensors


def _read(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, by name; of one tensor the name is empty."""
    with os_errors_told("cannot read this input", file):
        try:
            if file.suffix in (".pt", ".pth"):
                content = torch.load(file, map_location="cpu", weights_only=True)
                named = content if isinstance(content, dict) else {"": content}
            else:
                arrays = np.load(file, allow_pickle=False)
                alone = isinstance(arrays, np.ndarray)
                pairs = {"": arrays} if alone else dict(arrays)
                named = {name: torch.from_numpy(array) for name, array in pairs.items()}
        except (ValueError, EOFError, RuntimeError, TypeError) as error:
            raise InputError(f"no tensors of a model: {error}", where=str(file)) from error
    wrong = [name for name, value in named.items() if not isinstance(value, torch.Tensor)]
    if wrong:
        raise InputError(f"{wrong[0]!r} is no tensor", where=str(file))
    return named


def _clear(request: TorchRequest) -> None:
    """Make room for the output.

    Raises:
        InputError: what is there is no earlier capture that may be written over.
    """
    output = request.output
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    is_ours = output.is_dir() and all(
        each.name.removeprefix("step").isdecimal() for each in output.iterdir()
    )
    if not (request.replace and is_ours):
        hint = "use another folder, or --replace to write over an earlier capture"
        raise InputError("there is something here already", where=str(output), hint=hint)
    with os_errors_told("cannot write here", output):
        shutil.rmtree(output)


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """A script imports what lies beside it, as one that Python runs."""
    place = os.path.realpath(folder)
    sys.path.insert(0, place)
    try:
        yield
    finally:
        sys.path.remove(place)


@contextmanager
def _own_errors(place: str) -> Iterator[None]:
    """What the script raises, as our error with the line it comes from."""
    try:
        yield
    except (InputError, ExecutionError):
        raise
    except Exception as error:
        lines = error.__traceback__
        while lines is not None and lines.tb_next is not None:
            lines = lines.tb_next
        assert lines is not None
        where = f"{lines.tb_frame.f_code.co_filename}:{lines.tb_lineno}"
        raise ExecutionError(
            f"{place} raises {type(error).__name__}: {error}", where=where
        ) from error
