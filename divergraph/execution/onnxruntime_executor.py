"""Run ONNX models with ONNX Runtime, optimisations off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execution.contract import (
    DEFAULT_MEMORY,
    Array,
    Executor,
    Piece,
    PieceResult,
    PieceValues,
    Unavailable,
    checked_feed,
)
from divergraph.execution.onnx_files import load_model, root_tensors, set_outputs
from divergraph.execution.onnx_pieces import Explodable, Slice, explode, slice_of, tensor_name
from divergraph.execution.onnx_session import (
    element_type,
    is_plain,
    open_session,
    plain_options,
    run_session,
)
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Framework, ModelGraph, Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

# Of ONNX Runtime's element types, those numpy lacks and float32 holds.
_WIDENED = frozenset(
    ("bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0")
)
_NUMPY = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64")},
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64")},
}
_EIGHT_BYTES = frozenset((7, 11, 13))
"""int64, double and uint64 of onnx.proto, TensorProto.DataType."""
_UNKNOWN_SHARE = 8
"""A tensor of unknown size is taken for this part of the memory allowed."""


class OnnxRuntimeFactory:
    """Opens ONNX models."""

    name = "onnxruntime"
    extra = ""

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from an ONNX model."""
        return graph.framework is Framework.ONNX

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*."""
        return OnnxRuntimeExecutor(path, graph)


class OnnxRuntimeExecutor:
    """One ONNX model; every value comes from a session with all optimisations off."""

    def __init__(self, path: Path, graph: ModelGraph) -> None:
        import onnxruntime

        self.name = f"onnxruntime {onnxruntime.__version__}"
        self.inputs: tuple[Tensor, ...] = graph.inputs
        self._folder = path.resolve().parent
        self._model: ModelProto = load_model(path)
        self._sizes: dict[str, int | None] = {}
        self._types = self._probe(root_tensors(self._model.graph))
        self._widened = {
            name: f"{name}:float32" for name, kind in self._types.items() if kind in _WIDENED
        }
        self.tensors = tuple(name for name in self._types if self._reason(name) is None)
        self.unavailable = tuple(
            Unavailable(name, reason)
            for name in self._types
            if (reason := self._reason(name)) is not None
        )
        self._explodable: Explodable | None = None

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted*, batch by batch; each batch is a run of the model."""
        names = self.tensors if wanted is None else tuple(wanted)
        known = set(self.tensors)
        for name in names:
            if name not in known:
                raise InputError(f"the model makes no tensor {name!r} that can be kept")
        checked = self._checked(feeds)
        sizes = _sizes(self._model, checked)
        for batch in _batches(names, sizes, memory):
            yield from self._run_batch(batch, checked)

    def run_pieces(
        self, pieces: Iterable[Piece], values: PieceValues, *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PieceResult]:
        """Run pieces side by side in one session a batch; halved where one does not run."""
        source = self._exploded_source()
        batch: list[tuple[Slice, Mapping[str, Array]]] = []
        held = 0
        for piece in pieces:
            try:
                part = slice_of(source, piece)
            except ExecutionError as error:
                yield PieceResult(piece.key, {}, str(error))
                continue
            given = self._as_declared(values(piece))
            size = sum(value.nbytes for value in given.values())
            if batch and held + size > memory // 2:  # the other half is for the outputs
                yield from self._run_side_by_side(batch)
                batch, held = [], 0
            batch.append((part, given))
            held += size
        if batch:
            yield from self._run_side_by_side(batch)

    def close(self) -> None:
        """Let go of the model."""
        self._model.Clear()
        self._explodable = None

    def _probe(self, names: Sequence[str]) -> dict[str, str | None]:
        """Element types of all tensors as ONNX Runtime infers them; None for no tensor."""
        set_outputs(self._model, names, {})
        session = open_session(self._model, self._folder, plain_options())
        return {output.name: element_type(output.type) for output in session.get_outputs()}

    def _reason(self, name: str) -> str | None:
        kind = self._types[name]
        if kind is None:
            return "a sequence, map or optional value"
        if kind == "string":
            return "texts"
        if kind in _WIDENED or kind in _NUMPY:
            return None
        return f"elements of type {kind}"

    def _checked(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        inputs = {tensor.name: tensor for tensor in self.inputs}
        missing = [name for name in inputs if name not in feeds]
        unknown = [name for name in feeds if name not in inputs]
        if missing or unknown:
            what = f"no value for input {missing[0]!r}" if missing else f"no input {unknown[0]!r}"
            listed = ", ".join(inputs) or "none"
            raise InputError(what, hint=f"the model's inputs: {listed}")
        return {name: checked_feed(inputs[name], value) for name, value in feeds.items()}

    def _run_batch(
        self, names: Sequence[str], feeds: Mapping[str, Array]
    ) -> Iterator[tuple[str, Array]]:
        set_outputs(self._model, names, self._widened)
        session = open_session(self._model, self._folder, plain_options())
        values = run_session(session, [self._widened.get(name, name) for name in names], feeds)
        del session
        values.reverse()
        for name in names:
            value = values.pop()
            if not is_plain(value):
                raise ExecutionError(f"tensor {name!r} came out as {type(value).__name__}")
            yield name, value

    def _exploded_source(self) -> Explodable:
        if self._explodable is None:
            set_outputs(self._model, (), self._widened)
            self._explodable = Explodable(self._model)
        return self._explodable

    def _as_declared(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values in the element types the model computes in; a device may hold others."""
        declared = {tensor.name: tensor.dtype.numpy for tensor in self.inputs if tensor.dtype}
        found: dict[str, Array] = {}
        for name, value in values.items():
            kind = self._types.get(name)
            dtype = np.dtype(_NUMPY[kind]) if kind in _NUMPY else declared.get(name)
            found[name] = value if dtype is None else np.asarray(value, dtype)
        return found

    def _run_side_by_side(
        self, batch: Sequence[tuple[Slice, Mapping[str, Array]]]
    ) -> Iterator[PieceResult]:
        slices = [part for part, _ in batch]
        model, feeds = explode(self._exploded_source(), slices, [given for _, given in batch])
        wanted = [
            (number, name)
            for number, part in enumerate(slices)
            for name in part.piece.outputs
            if name not in part.piece.inputs
        ]
        names = [tensor_name(number, name) for number, name in wanted]
        try:
            session = open_session(model, self._folder, plain_options())
            values = run_session(session, names, feeds) if names else []
        except ExecutionError as error:
            if len(batch) == 1:
                yield PieceResult(slices[0].piece.key, {}, str(error))
                return
            middle = len(batch) // 2
            yield from self._run_side_by_side(batch[:middle])
            yield from self._run_side_by_side(batch[middle:])
            return
        made: list[dict[str, Array]] = [{} for _ in slices]
        for (number, name), value in zip(wanted, values, strict=True):
            made[number][name] = value
        for part, found in zip(slices, made, strict=True):
            yield PieceResult(part.piece.key, found)


def _sizes(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, int]:
    """Bytes of the tensors whose shape follows from the feeds' shapes."""
    from onnx import ModelProto, helper, shape_inference
    from onnx.shape_inference import InferenceError

    shaped = ModelProto()
    shaped.CopyFrom(model)
    for value in shaped.graph.input:
        if value.name in feeds:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, feeds[value.name].shape))
    try:
        inferred = shape_inference.infer_shapes(shaped, data_prop=True)
    except (InferenceError, RuntimeError, ValueError):
        return {}  # then every tensor counts as one of unknown size
    found: dict[str, int] = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        declared = info.type.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim]
        if declared.HasField("shape") and declared.elem_type and None not in sizes:
            elements = int(np.prod([size or 0 for size in sizes], dtype=np.int64))
            wide = declared.elem_type in _EIGHT_BYTES
            # at least 4 bytes: narrow floats are widened
            found[info.name] = elements * (8 if wide else 4)
    return found


def _batches(names: Sequence[str], sizes: Mapping[str, int], memory: int) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for name in names:
        size = sizes.get(name, memory // _UNKNOWN_SHARE)
        if batch and held + size > memory:
            yield batch
            batch, held = [], 0
        batch.append(name)
        held += size
    if batch:
        yield batch
