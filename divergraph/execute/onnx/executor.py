"""Run ONNX models with ONNX Runtime, optimisations off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from divergraph.execute.contract import (
    DEFAULT_MEMORY,
    AdditiveRun,
    Array,
    BodyChange,
    Executor,
    QuantisedRead,
    QuantisedRun,
    RunnableSubgraph,
    SubgraphResult,
    SubgraphValues,
    Unavailable,
    checked_feeds,
    chosen_tensors,
)
from divergraph.execute.onnx.altered import OnnxChangedRun, alter, change_body, open_for_additions
from divergraph.execute.onnx.files import root_tensors, round_between_ops, set_outputs
from divergraph.execute.onnx.in_float64 import in_float64
from divergraph.execute.onnx.quantised import open_readings
from divergraph.execute.onnx.session import (
    LiveValues,
    OnnxSession,
    element_type,
    load_onnxruntime,
    open_session,
    plain_options,
    run_session,
)
from divergraph.execute.onnx.subgraphs import (
    Explodable,
    OnnxSubgraph,
    explode,
    segments,
    slice_of,
    tensor_name,
)
from divergraph.execute.onnx.weights import load_without_weights
from divergraph.execute.precision import PRECISION, in_double, told
from divergraph.execute.side_by_side import run_in_batches
from graphstore.errors import ExecutionError
from graphstore.model import AttrValue, Framework, ModelGraph, Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

# Of ONNX Runtime's element types, those numpy lacks and float32 holds.
_NARROW = frozenset(
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


class OnnxRuntimeFactory:
    """Opens ONNX models."""

    name = "onnxruntime"
    extra = ""
    packages = ("onnx", "onnxruntime")
    load = staticmethod(load_onnxruntime)
    options: Mapping[str, str] = PRECISION

    def accepts(self, graph: ModelGraph) -> bool:
        """Whether *graph* was read from an ONNX model."""
        return graph.framework is Framework.ONNX

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """The model in *path*."""
        return OnnxRuntimeExecutor(path, graph)

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path* with some of :attr:`options`."""
        return OnnxRuntimeExecutor(path, graph, double=in_double(options))


class OnnxRuntimeExecutor:
    """One ONNX model; every value comes from a session with all optimisations off. In *double*
    precision each result is rounded once, to its own type."""

    def __init__(self, path: Path, graph: ModelGraph, *, double: bool = False) -> None:
        import onnxruntime
        from onnx import TensorProto

        self._double = double
        self.name = told(f"onnxruntime {onnxruntime.__version__}", double=double)
        self.inputs: tuple[Tensor, ...] = graph.inputs
        self._folder = path.resolve().parent
        self._model, self._weights = load_without_weights(path)
        self._types = self._probe(root_tensors(self._model.graph))
        self._narrow = {
            name: TensorProto.DataType.Value(kind.upper())
            for name, kind in self._types.items()
            if kind in _NARROW
        }
        self._halves = frozenset(name for name, kind in self._types.items() if kind == "float16")
        self._source = Explodable(self._model)
        ordered = sorted(self._types, key=lambda name: self._source.rank[self._source.makers[name]])
        self.tensors = tuple(name for name in ordered if self._reason(name) is None)
        self.unavailable = tuple(
            Unavailable(name, reason)
            for name in self._types
            if (reason := self._reason(name)) is not None
        )

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted*, part after part of the model, each op run once."""
        names = chosen_tensors(self.tensors, wanted)
        checked = checked_feeds(self.inputs, feeds)
        unfeedable = frozenset(name for name, kind in self._types.items() if kind is None)
        budget = memory // 4 if self._double else memory // 2
        parts = segments(self._source, checked, names, budget, unfeedable)
        wanted_names = set(names)
        live = LiveValues(memory // 2, Counter(name for part in parts for name in part.inputs))
        try:
            for name, value in checked.items():
                live.keep(name, value)
            for part in parts:
                part_feeds = {name: live.take(name) for name in part.inputs}
                for name, value in self._run_part(part, part_feeds):
                    live.keep(name, value)
                    if name in wanted_names:
                        yield name, self._as_own(name, value)
        finally:
            live.close()

    def run_subgraphs(
        self,
        subgraphs: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        """Run pieces side by side in one session a batch; halved where one does not run."""
        return run_in_batches(
            subgraphs,
            lambda piece: self._as_declared(values(piece)),
            partial(slice_of, self._source),
            self._own_values,
            memory // 2,  # the other half is for the outputs
            weights=lambda part: {name: self._weights.nbytes(name) for name in part.weights},
        )

    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """One session of the whole model with an input added to each of *tensors*."""
        return self.with_readings(feeds, tensors, outputs, ())

    def with_readings(
        self,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
        readings: Sequence[QuantisedRead],
    ) -> QuantisedRun:
        """As ``with_additions``; of each op with *readings* the session holds two."""
        from onnx import ModelProto, helper

        chosen_tensors(self.tensors, (*tensors, *outputs))
        inside = self._as_declared({n: feed for n, feed in feeds.items() if n in self._types})
        outside = {name: value for name, value in feeds.items() if name not in inside}
        checked = {**checked_feeds(self.inputs, outside), **inside}
        types = {
            name: np.dtype(_NUMPY[kind])
            for name in tensors
            if name not in inside and (kind := self._open(name))
        }
        model = ModelProto()
        model.CopyFrom(self._model)
        makers = open_readings(model, readings) if readings else ()
        numbers = {name: helper.np_dtype_to_tensor_dtype(kind) for name, kind in types.items()}
        fed = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in inside.items()}
        open_for_additions(model, numbers, fed, outputs)
        round_between_ops(model.graph, self._halves)
        session = open_session(model, self._folder, plain_options())
        open_feeds = [name for name in tensors if name in fed and inside[name].dtype.kind == "f"]
        return OnnxChangedRun(session, checked, types, open_feeds, outputs, makers)

    def run_altered(
        self,
        piece: RunnableSubgraph,
        values: Mapping[str, Array],
        tensor: str,
        attrs: Mapping[str, AttrValue],
    ) -> Mapping[str, Array] | None:
        """The piece alone, the node that makes *tensor* changed."""
        return self._run_changed(piece, values, lambda model: alter(model, tensor, attrs))

    def run_with_body(
        self, piece: RunnableSubgraph, values: Mapping[str, Array], change: BodyChange
    ) -> Mapping[str, Array] | None:
        """The piece alone, an op of a body changed."""
        return self._run_changed(piece, values, lambda model: change_body(model.graph, change))

    def _run_changed(
        self,
        piece: RunnableSubgraph,
        values: Mapping[str, Array],
        changed: Callable[[ModelProto], bool],
    ) -> Mapping[str, Array] | None:
        """What the piece makes after its model was changed; None if it cannot be, or fails then."""
        try:
            part = slice_of(self._source, piece)
            declared = self._as_declared(values)
            model, feeds = explode(self._source, [part], [declared], self._narrow)
            if not changed(model):
                return None
            names = [output.name for output in model.graph.output]
            self._round_pieces(model)
            results = run_session(self._session(model), names, feeds)
        except ExecutionError:
            return None  # the shapes do not fit the change
        return dict(zip(part.made, results, strict=True))

    def close(self) -> None:
        """Let go of the model."""
        self._model.Clear()

    def _probe(self, names: Sequence[str]) -> dict[str, str | None]:
        """Element types of all tensors as ONNX Runtime infers them; None for no tensor."""
        set_outputs(self._model, names)
        options = plain_options()
        options.add_session_config_entry("session.disable_prepacking", "1")
        nothing = {name: self._weights.nothing(name) for name in self._weights.places}
        session = open_session(self._model, self._folder, options, nothing)
        return {name: element_type(kind) for name, kind in session.types.items()}

    def _session(self, model: ModelProto) -> OnnxSession:
        """A session of *model*, made of this one, with the weights it takes."""
        weights = {name: self._weights.read(name) for name in self._weights.used(model)}
        return open_session(model, self._folder, plain_options(), weights)

    def _round_pieces(self, model: ModelProto) -> None:
        """Let the ops of an exploded model read float16 tensors as they are given out."""
        if self._halves:
            produced = {name for node in model.graph.node for name in node.output}
            halves = {name for name in produced if name.partition("/")[2] in self._halves}
            round_between_ops(model.graph, halves)

    def _open(self, name: str) -> str | None:
        """The element type of a tensor something can be added to; None for others."""
        kind = self._types.get(name)
        return kind if kind in ("float", "double", "float16") else None

    def _reason(self, name: str) -> str | None:
        kind = self._types[name]
        if kind is None:
            return "a sequence, map or optional value"
        if kind == "string":
            return "texts"
        if kind in _NARROW or kind in _NUMPY:
            return None
        return f"elements of type {kind}"

    def _run_part(
        self, part: RunnableSubgraph, feeds: Mapping[str, Array]
    ) -> Iterator[tuple[str, Array]]:
        """The outputs of one part, let go as they are taken."""
        cut = slice_of(self._source, part)
        values = self._session_values([cut], [feeds])
        values.reverse()
        for name in cut.made:
            yield name, values.pop()

    def _session_values(
        self, slices: Sequence[OnnxSubgraph], feeds_of_slices: Sequence[Mapping[str, Array]]
    ) -> list[Array]:
        """The outputs of slices run side by side, slice by slice, as they are computed."""
        own_feeds = [
            {n: self._as_own(n, value) for n, value in values.items()} for values in feeds_of_slices
        ]
        # The draws of one group are alike: making a session takes longer than to run it again.
        alike = not self._double and len(set(map(_form, slices, own_feeds))) == 1
        apart = slices[:1] if alike else slices
        model, feeds = explode(self._source, apart, own_feeds[: len(apart)], self._narrow)
        if not model.graph.output:
            return []
        if self._double:
            for number, values in enumerate(feeds_of_slices):
                called = {tensor_name(number, name): value for name, value in values.items()}
                feeds.update((name, called[name]) for name in feeds.keys() & called.keys())
            model, feeds, _ = in_float64(model, feeds)
        else:
            self._round_pieces(model)
        names = [output.name for output in model.graph.output]
        session = self._session(model)
        if not alike:
            return run_session(session, names, feeds)
        fed = ([values[name] for name in slices[0].piece.inputs] for values in own_feeds)
        rounds = (dict(zip(feeds, values, strict=True)) for values in fed)
        return [value for each in rounds for value in run_session(session, names, each)]

    def _own_values(
        self, slices: Sequence[OnnxSubgraph], feeds_of_slices: Sequence[Mapping[str, Array]]
    ) -> list[Array]:
        """The outputs of slices in their own types."""
        names = (name for part in slices for name in part.made)
        values = self._session_values(slices, feeds_of_slices)
        return [self._as_own(name, value) for name, value in zip(names, values, strict=True)]

    def _as_own(self, name: str, value: Array) -> Array:
        """A value that was computed in double precision, in its own type."""
        if not self._double or not isinstance(value, np.ndarray) or value.dtype != np.float64:
            return value
        kind = self._types.get(name)
        if kind is None:
            return value
        return value.astype(_NUMPY.get(kind, "float32"))

    def _as_declared(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values in the element types the model computes in; a device may hold others."""
        declared = {tensor.name: tensor.dtype.numpy for tensor in self.inputs if tensor.dtype}
        as_declared: dict[str, Array] = {}
        for name, value in values.items():
            kind = self._types.get(name)
            dtype = np.dtype(_NUMPY[kind]) if kind in _NUMPY else declared.get(name)
            # asarray without a dtype, too: sums of arrays of no axes are no arrays any more
            as_declared[name] = np.asarray(value, dtype)
        return as_declared


def _form(part: OnnxSubgraph, feeds: Mapping[str, Array]) -> Hashable:
    """What two slices have alike that one session can run."""
    piece = part.piece
    kinds = ((feeds[name].dtype, feeds[name].shape) for name in piece.inputs)
    return (piece.inputs, piece.outputs, *kinds)
