"""Long weights of an ONNX model, left in its file until a session runs an op that takes them.

Parsed, copied into the model of a few ops, written for ONNX Runtime and parsed there again,
weights would be in memory five times. Left where they are, only those of the ops that run
are, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.onnx.files import fix_seeds, load_model
from graphstore.errors import ExecutionError, ImportFormatError
from importers.proto.wire import BLOCK, Plan, spans, without_long
from importers.source import mapped

if TYPE_CHECKING:
    import mmap

    from onnx import ModelProto, TensorProto

_LONG = 1 << 14
"""Shorter values stay in the model: shapes follow from such ones."""
_SMALL_FILE = 1 << 18
# Fields of onnx.proto: graph of ModelProto, initializer of GraphProto, raw_data of TensorProto.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_PLAN: Plan = {_GRAPH: {_INITIALIZER: {_RAW_DATA: None}}}


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """The weights of a model that stayed in its file, by name; ``state`` is that of the file."""

    path: Path
    places: Mapping[str, _Place] = field(default_factory=dict)
    state: tuple[int, ...] = ()

    def read(self, name: str) -> Array:
        """The values of one.

        Raises:
            ExecutionError: the file is gone, or another by now.
        """
        place = self.places[name]
        count = int(np.prod(place.shape))
        try:
            with self.path.open("rb") as file:
                if _state(file) != self.state:
                    raise ExecutionError(f"{self.path.name} was rewritten while it was in use")
                file.seek(place.offset)
                value = np.fromfile(file, place.dtype, count)
        except OSError as error:
            raise ExecutionError(f"cannot read the model's weights: {error}") from error
        return value.reshape(place.shape)

    def nothing(self, name: str) -> Array:
        """Zeros in the shape of one, of which only what is looked at takes memory."""
        place = self.places[name]
        return np.zeros(place.shape, place.dtype)

    def nbytes(self, name: str) -> int:
        """Bytes of one; 0 of others."""
        place = self.places.get(name)
        return 0 if place is None else int(np.prod(place.shape)) * place.dtype.itemsize

    def used(self, model: ModelProto) -> Iterator[str]:
        """Those that *model*, made of this one, takes."""
        return (tensor.name for tensor in model.graph.initializer if tensor.name in self.places)


def load_without_weights(path: Path) -> tuple[ModelProto, StoredWeights]:
    """The model in *path* as ``load_model`` gives it, its long weights told by their place.

    Models in text, and those whose values are written in any other way, are loaded whole.

    Raises:
        ExecutionError: it is damaged.
    """
    file = path.resolve()  # ONNX Runtime follows no link out of a folder
    if path.suffix != ".onnx" or not _is_text(file.name) or _is_small(file):
        return load_model(path), StoredWeights(file)
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    model = ModelProto()
    try:
        with file.open("rb") as opened, mapped(file) as buffer:
            model.ParseFromString(without_long(buffer, _PLAN, _LONG))
            places = dict(_left_out(model, buffer, file.name))
            stored = StoredWeights(file, places, _state(opened))
    except (DecodeError, OSError, ValueError, ImportFormatError) as error:
        raise ExecutionError(f"cannot load the model: {error}", where=str(path)) from error
    _not_as_inputs(model, places)
    fix_seeds(model)
    return model, stored


def _state(file: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino


def _is_small(file: Path) -> bool:
    return not file.is_file() or file.stat().st_size < _SMALL_FILE


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _left_out(model: ModelProto, buffer: mmap.mmap, file: str) -> Iterator[tuple[str, _Place]]:
    """The weights whose values are not in *model*, each told to lie in *file*."""
    for tensor, (start, end) in zip(model.graph.initializer, _raw_data(buffer), strict=True):
        if end - start <= _LONG:
            continue
        place = _place(tensor, start, end)
        if place is None or not tensor.name:
            tensor.raw_data = buffer[start:end]
            continue
        tensor.data_location = tensor.EXTERNAL
        facts = {"location": file, "offset": str(start), "length": str(end - start)}
        for key, value in facts.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        yield tensor.name, place


def _raw_data(buffer: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Where the raw data of each initializer of the root graph begins and ends."""
    for graph in spans(buffer):
        if graph.number != _GRAPH or graph.wire_type != BLOCK:
            continue
        for tensor in spans(buffer, graph.start, graph.end):
            if tensor.number != _INITIALIZER or tensor.wire_type != BLOCK:
                continue
            extent = (0, 0)
            if tensor.end - tensor.start > _LONG:
                for span in spans(buffer, tensor.start, tensor.end):
                    if span.number == _RAW_DATA and span.wire_type == BLOCK:
                        extent = (span.start, span.end)
            yield extent


def _place(tensor: TensorProto, start: int, end: int) -> _Place | None:
    """Where numpy can read the values of *tensor*; None for what it cannot."""
    from onnx import helper

    if tensor.data_type in _kinds():
        place = _Place(
            start, np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)), tuple(tensor.dims)
        )
        elements = np.prod(place.shape, dtype=object)
        if min(place.shape, default=0) >= 0 and elements * place.dtype.itemsize == end - start:
            return place
    return None


def _kinds() -> frozenset[int]:
    from onnx import TensorProto as T

    numbers = (T.INT8, T.INT16, T.INT32, T.INT64, T.UINT8, T.UINT16, T.UINT32, T.UINT64)
    return frozenset((T.FLOAT, T.DOUBLE, T.FLOAT16, T.BOOL, *numbers))


def _not_as_inputs(model: ModelProto, names: Iterable[str]) -> None:
    """Take weights off the inputs: what may be fed anew is no constant for ONNX Runtime."""
    fixed = set(names)
    inputs = [info for info in model.graph.input if info.name not in fixed]
    if len(inputs) < len(model.graph.input):
        del model.graph.input[:]
        model.graph.input.extend(inputs)
        model.ir_version = max(model.ir_version, 4)  # weights need not be inputs from 4 on
