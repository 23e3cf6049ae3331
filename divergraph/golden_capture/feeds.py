"""The input values of a model, from files or from seeded random numbers."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.child.limits import ModelLimits
from divergraph.execute.contract import Array, checked_feed
from divergraph.files.os_errors import os_errors_told
from divergraph.golden_capture.named_inputs import (
    first_iteration,
    full_name,
    named_value,
    named_values,
    names_tensors,
)
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import Tensor
from importers.archives import refuse_archive
from importers.dumps.arrays.npy import load_any_npy

_SEED = re.compile(r"random:(\d{1,18})")


def read_feeds(
    inputs: Sequence[Tensor], files: Mapping[str, Path]
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The values of *files* by input name, checked, and remarks on them.

    Under ``""`` is a file that names its tensors, or the value of the only input. A raw file has
    the input's own element type and shape, one unknown dimension counted from its size.

    Raises:
        InputError: a name that is no input, a file that does not fit it.
        ImportFormatError: a damaged file.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    values_by_name: dict[str, Array] = {}
    remarks: list[str] = []
    for called, file in files.items():
        path, chosen = first_iteration(file)
        remarks += chosen
        if called:
            values, notes = _read_one(tensors, called, path)
        elif names_tensors(path):
            values, notes = named_values(path, tensors)
        elif len(tensors) == 1:
            values, notes = _read_one(tensors, next(iter(tensors)), path)
        else:
            listed = ", ".join(tensors)
            hint = f"--inputs NAME=FILE with one of: {listed}"
            raise InputError(f"{path} is the value of which input?", hint=hint)
        remarks += notes
        for name, value in values.items():
            if name in values_by_name:
                raise InputError(f"two values for input {name!r}")
            try:
                values_by_name[name] = checked_feed(tensors[name], value)
            except InputError as error:
                raise InputError(error.what, where=str(path), hint=error.hint) from error
    return values_by_name, tuple(remarks)


def _read_one(
    tensors: Mapping[str, Tensor], called: str, path: Path
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The value of the input the user *called* so."""
    name = full_name(called, tensors)
    if name not in tensors:
        listed = ", ".join(tensors) or "none"
        raise InputError(f"the model has no input {called!r}", hint=f"its inputs: {listed}")
    if names_tensors(path):
        value, remarks = named_value(path, name)
        return {name: value}, remarks
    if path.suffix == ".npy":
        return {name: _read_npy(path)}, ()
    tensor = _read_onnx_tensor(path) if path.suffix == ".pb" else None
    return {name: _read_raw(path, tensors[name]) if tensor is None else tensor}, ()


@dataclass(frozen=True, slots=True)
class MadeUp:
    """How values are made up: ranges by the input's name, one under ``""`` for all others."""

    seed: int
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def shaped(inputs: Sequence[Tensor], shapes: Mapping[str, tuple[int, ...]]) -> tuple[Tensor, ...]:
    """*inputs* with the sizes the user gives.

    Raises:
        InputError: a name that is no input, or sizes that do not fit it.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    sizes_by_name = {full_name(called, tensors): sizes for called, sizes in shapes.items()}
    for name, sizes in sizes_by_name.items():
        _check_name(name, tensors)
        declared = tensors[name].shape
        pairs = () if declared is None else zip(declared, sizes, strict=False)
        if declared is not None and (
            len(declared) != len(sizes) or any(want not in (None, have) for want, have in pairs)
        ):
            shape = "x".join(map(str, sizes))
            raise InputError(
                f"the shape {shape} does not fit input {name!r} ({_described(tensors[name])})"
            )
    return tuple(
        replace(tensor, shape=sizes_by_name[tensor.name])
        if tensor.name in sizes_by_name
        else tensor
        for tensor in inputs
    )


def random_feeds(inputs: Sequence[Tensor], recipe: MadeUp) -> dict[str, Array]:
    """Values for *inputs* that depend on the seed and the input's name only.

    Floats are standard normal, whole numbers 0 or 1 (safe as index, length and mask), both evenly
    between the ends of a range where one is given; unknown dimensions are 1.

    Raises:
        InputError: an input of unknown type or rank, or a range for no input.
    """
    names = {tensor.name for tensor in inputs}
    ranges = {full_name(name, names) if name else "": ends for name, ends in recipe.ranges.items()}
    for name in ranges:
        if name:
            _check_name(name, names)
    return {
        tensor.name: _random(tensor, recipe.seed, ranges.get(tensor.name, ranges.get("")))
        for tensor in inputs
    }


def seed_of(file: Path) -> int | None:
    """The seed in ``random:SEED``, given in place of a file; None for a file."""
    match = _SEED.fullmatch(str(file))
    return int(match[1]) if match and not file.exists() else None


def seeded_feeds(
    inputs: Sequence[Tensor], seeds: Mapping[str, int], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Array]:
    """Values for the inputs that have seeds of their own, made up as :func:`random_feeds` does.

    Raises:
        InputError: a name that is no input, or one of unknown type or rank.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    ends = {full_name(name, tensors) if name else "": interval for name, interval in ranges.items()}
    values: dict[str, Array] = {}
    for called, seed in seeds.items():
        name = full_name(called, tensors)
        _check_name(name, tensors)
        values[name] = _random(tensors[name], seed, ends.get(name, ends.get("")))
    return values


def _check_name(name: str, names: Collection[str]) -> None:
    if name not in names:
        listed = ", ".join(names) or "none"
        raise InputError(f"the model has no input {name!r} to make up", hint=f"inputs: {listed}")


def check_fed(inputs: Sequence[Tensor], feeds: Mapping[str, Array]) -> None:
    """Refuse inputs without a value.

    Raises:
        InputError: there is one.
    """
    missing = [tensor for tensor in inputs if tensor.name not in feeds]
    if missing:
        wanted = ", ".join(f"{tensor.name} ({_described(tensor)})" for tensor in missing)
        hint = "give --inputs NAME=FILE for each, or --random SEED"
        raise InputError(f"no value for {wanted}", hint=hint)


def _described(tensor: Tensor) -> str:
    dtype = "any type" if tensor.dtype is None else tensor.dtype.value
    if tensor.shape is None:
        return f"{dtype}, any shape"
    sizes = "x".join("?" if size is None else str(size) for size in tensor.shape)
    return f"{dtype} {sizes}" if sizes else f"{dtype}, a single value"


def _random(tensor: Tensor, seed: int, ends: tuple[float, float] | None) -> Array:
    dtype = None if tensor.dtype is None else tensor.dtype.numpy
    if dtype is None or tensor.shape is None:
        shape_helps = "" if dtype is None else ", or --shape NAME=SIZES (NAME= for a single value)"
        raise InputError(
            f"input {tensor.name!r} ({_described(tensor)}) cannot be made up",
            hint=f"give --inputs NAME=FILE for it{shape_helps}",
        )
    shape = tuple(1 if size is None else size for size in tensor.shape)
    limits = ModelLimits.of_environment()
    if math.prod(shape) * np.dtype(dtype).itemsize > limits.memory << 20:
        raise limits.out_of_memory()
    draw = np.random.default_rng([seed, zlib.crc32(tensor.name.encode())])
    if ends is not None and dtype.kind in "fc":
        return draw.uniform(*ends, shape).astype(dtype)
    if ends is not None and dtype.kind in "iu":
        return draw.integers(*_whole(ends, dtype, tensor), shape, dtype, endpoint=True)
    if dtype.kind in "fc":
        return np.asarray(draw.standard_normal(shape)).astype(dtype)
    return draw.integers(0, 2, shape).astype(dtype)


def _whole(ends: tuple[float, float], dtype: np.dtype[Any], tensor: Tensor) -> tuple[int, int]:
    """The whole numbers at the *ends* of a range."""
    limits = np.iinfo(dtype)
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    if not limits.min <= low <= high <= limits.max:
        raise InputError(
            f"the range {ends[0]:g}..{ends[1]:g} does not fit input {tensor.name!r} "
            f"({_described(tensor)})"
        )
    return low, high


def _read_npy(path: Path) -> Array:
    try:
        with os_errors_told("", path):
            value = load_any_npy(path)
    except (ValueError, EOFError) as error:
        raise ImportFormatError(path, f"not a readable .npy file: {error}") from error
    if not isinstance(value, np.ndarray):
        raise ImportFormatError(path, "this is an archive of arrays, not one array")
    return value


def _read_onnx_tensor(path: Path) -> Array | None:
    """A value as the test data of ONNX models has it; None if the file holds something else."""
    import onnx
    from google.protobuf.message import DecodeError

    with os_errors_told("", path):
        data = path.read_bytes()
    try:
        value = onnx.numpy_helper.to_array(onnx.load_tensor_from_string(data))
    except (DecodeError, TypeError, ValueError, KeyError):
        return None
    return np.asarray(value)


def _read_raw(path: Path, tensor: Tensor) -> Array:
    dtype = None if tensor.dtype is None else tensor.dtype.numpy
    if dtype is None or tensor.shape is None:
        raise InputError(
            f"the model does not say type and shape of input {tensor.name!r}",
            where=str(path),
            hint="give it as .npy",
        )
    with os_errors_told("", path):
        data = path.read_bytes()
    unknown = sum(size is None for size in tensor.shape)
    fixed = int(np.prod([size for size in tensor.shape if size is not None], dtype=np.int64))
    one = fixed * dtype.itemsize
    fits = (
        one > 0 and len(data) % one == 0 and (unknown == 1 or (unknown == 0 and len(data) == one))
    )
    if not fits:
        refuse_archive(path, "the value of an input")
        raise InputError(
            f"{len(data)} bytes do not fit input {tensor.name!r} ({_described(tensor)})",
            where=str(path),
            hint="--shape NAME=1,3,224,224, or give it as .npy, which carries type and shape",
        )
    return np.frombuffer(data, dtype).reshape([-1 if n is None else n for n in tensor.shape])
