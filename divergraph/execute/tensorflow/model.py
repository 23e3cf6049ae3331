"""A TensorFlow model opened for running: its graph, its step, the state before the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.branches import HANDLES, READS
from divergraph.execute.tensorflow.calls_in_place import CallInliner, calls_in_place
from divergraph.execute.tensorflow.chunks import chunks, dead_tensors, item_size, known_size
from divergraph.execute.tensorflow.files import (
    as_typed,
    load_meta_graph,
    new_session,
    plain,
    saved_values,
    tensorflow,
    tensorflow_told,
)
from divergraph.execute.tensorflow.state import Preparation, initializers, own_paths, values_of_dump
from divergraph.execute.tensorflow.step import (
    Step,
    StepFinder,
    changes_outside,
    in_order,
    is_variable,
    loops,
    needed,
)
from divergraph.execute.tensorflow.subgraphs import RunnableSubgraphs, producer_ops
from divergraph.execute.tensorflow_outside import keep_inside
from graphstore.errors import ExecutionError, InputError
from graphstore.model import ModelGraph

_STEADY = frozenset((READS, "Placeholder", "PlaceholderV2", "ResourceGather", "Assert"))
"""Stateful ops after which a session is as it was before."""


@dataclass
class Model:
    """What of a model its runs share. ``inputs`` are the tensors a run must be fed."""

    name: str
    source: ModelGraph
    graph: Any
    meta: Any
    step: Step
    fed: frozenset[str]
    inputs: tuple[str, ...]
    preparation: Preparation
    in_loops: Mapping[str, str]
    changes: bool
    """Whether even reading tensors moves a session on (random numbers, iterators)."""
    sizes: Mapping[str, Any]
    """What counts the elements of tensors of unknown shape, by tensor."""
    outside: Mapping[str, str]
    """Why ops that reach outside of the model do not run, by name."""
    _variables: dict[str, Array] = field(default_factory=dict)
    _pieces: list[RunnableSubgraphs] = field(default_factory=list)

    def pieces(self) -> RunnableSubgraphs:
        """What cuts pieces out of the model."""
        if not self._pieces:
            source = calls_in_place(self.source)
            pieces = RunnableSubgraphs(
                self.graph, self.meta, self.in_loops, self._variable, source, self.outside
            )
            self._pieces.append(pieces)
        return self._pieces[0]

    def close(self) -> None:
        """Let go of the graph."""
        self.meta.Clear()
        self._variables.clear()
        self._pieces.clear()

    def _variable(self, name: str) -> Array:
        if name not in self._variables:
            tf = tensorflow()
            op = self.graph.get_operation_by_name(name)
            tensor = op.outputs[0]
            if op.type in HANDLES:
                with self.graph.as_default():
                    kind = op.get_attr("dtype")
                    tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=kind)
            with new_session(self.graph) as session:
                self.preparation.prepare(session, {}, only_variables=True)
                self._variables[name] = plain(session.run(tensor))
        return self._variables[name]


def open_model(graph: ModelGraph, options: Mapping[str, str]) -> Model:
    """The model *graph* was read from.

    Raises:
        ExecutionError: TensorFlow refuses it, or nothing says the values of its variables.
        InputError: an option that does not fit the model.
        ImportError: TensorFlow is not installed.
    """
    tf = tensorflow()
    meta = load_meta_graph(graph)
    fed = frozenset(name for name in options.get("feed", "").split(",") if name)
    CallInliner(meta.graph_def, graph).inline(fed)
    paths = own_paths(meta)
    outside = keep_inside(meta.graph_def, paths)
    no_part = {path.partition(":")[0]: "takes the path of a file" for path in paths} | outside
    imported = _imported(meta, graph)
    for name in fed:
        _check_tensor(imported, name)
    first_ops = initializers(imported, meta)
    train = _train_ops(imported, meta, options.get("train_op", ""))
    closed = changes_outside(meta.graph_def) | _other_signatures(meta, options)
    first = frozenset(first_ops.values())
    step = StepFinder(imported, train, first, fed, closed, no_part).step()
    used = needed((imported.get_tensor_by_name(name).op for name in step.tensors), fed)
    folder = options.get("variables", "")
    arrays = values_of_dump(graph, Path(folder)) if folder else {}
    checkpoint = options.get("checkpoint", "") or saved_values(graph)
    preparation = Preparation(imported, meta, checkpoint, arrays, used, fed, outside)
    inputs = dict.fromkeys((*step.placeholders, *preparation.placeholders(), *sorted(fed)))
    return Model(
        f"tensorflow {tf.__version__}",
        graph,
        imported,
        meta,
        step,
        fed,
        tuple(inputs),
        preparation,
        loops(imported),
        any(_moves(op) for op in used),
        _counters(imported, step),
        outside,
    )


def _imported(meta: Any, graph: ModelGraph) -> Any:
    tf = tensorflow()
    imported = tf.Graph()
    with tensorflow_told("TensorFlow refuses the model", graph.source), imported.as_default():
        tf.compat.v1.import_graph_def(meta.graph_def, name="", producer_op_list=producer_ops(meta))
    return imported


def _check_tensor(graph: Any, name: str) -> None:
    try:
        graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        raise InputError(f"the model has no tensor {name!r} to feed") from error


def _train_ops(graph: Any, meta: Any, train_ops: str) -> list[str]:
    names = [name for name in train_ops.split(",") if name]
    op_names = {op.name for op in graph.get_operations()}
    for name in names:
        if name.partition(":")[0] not in op_names:
            raise InputError(f"the model has no op {name!r} to end the step with")
    if not names and "train_op" in meta.collection_def:
        names = list(meta.collection_def["train_op"].node_list.value)
    return [name.partition(":")[0] for name in names if name.partition(":")[0] in op_names]


def _other_signatures(meta: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The placeholders that only other signatures than the one to run take, and whose they are."""
    signature_name = options.get("signature", "")
    if signature_name and signature_name not in meta.signature_def:
        listed = ", ".join(sorted(meta.signature_def)) or "none"
        raise InputError(
            f"the model has no signature {signature_name!r}", hint=f"there are: {listed}"
        )
    inputs = {
        name: {info.name.partition(":")[0] for info in signature.inputs.values()}
        for name, signature in meta.signature_def.items()
    }
    chosen = signature_name or "serving_default"
    if chosen not in inputs:
        return {}
    return {
        placeholder: f"belongs to signature {name}"
        for name in sorted(inputs)
        for placeholder in inputs[name] - inputs[chosen]
    }


def _moves(op: Any) -> bool:
    return (
        op.op_def is not None
        and op.op_def.is_stateful
        and not (is_variable(op) or op.type in _STEADY)
    )


def _counters(graph: Any, step: Step) -> dict[str, Any]:
    tf = tensorflow()
    counters: dict[str, Any] = {}
    with graph.as_default():
        for name in step.tensors:
            tensor = graph.get_tensor_by_name(name)
            if name not in step.late and known_size(tensor) is None:
                counters[name] = tf.raw_ops.Size(input=tensor, out_type=tf.int64)
    return counters


_MOST_FAILURES = 20
"""Tensors that may fail in a row before the whole run counts as failed."""
_EMPTY = "its variable has no value"
_NO_VALUE = ("Could not find variable", "uninitialized value", "is uninitialized")
"""What TensorFlow says of variables nothing gave a value, of each kind."""


# A step in TensorFlow starts from variables, random generators and iterators. Each part of a run
# starts from the same state of all of them, so its tensors are those of one step.
class TensorFlowRun:
    """The run of *names* (tensors of the model) on *feeds*."""

    def __init__(
        self, model: Model, feeds: Mapping[str, Array], names: Sequence[str], memory: int
    ) -> None:
        self._model = model
        self._tensors = [model.graph.get_tensor_by_name(name) for name in names]
        self._memory = memory
        self._session: Any = None
        self._failures = 0
        self._feeds = {
            name: as_typed(value, model.graph.get_tensor_by_name(name).dtype)
            for name, value in feeds.items()
        }

    def values(self) -> Iterator[tuple[str, Array | str]]:
        """Each tensor's value, or why it has none.

        Raises:
            ExecutionError: the model does not run on these feeds.
        """
        late = self._model.step.late
        try:
            early = [tensor for tensor in self._tensors if tensor.name not in late]
            dead = self._dead()
            empty = self._behind_empty()
            yield from ((t.name, _EMPTY) for t in self._tensors if t.op in empty)
            self._tensors = [tensor for tensor in self._tensors if tensor.op not in empty]
            early = [tensor for tensor in early if tensor.op not in empty]
            for tensor in self._tensors:
                if tensor.name in dead:
                    yield tensor.name, "its branch is not taken on these inputs"
            early = [tensor for tensor in early if tensor.name not in dead]
            for group in chunks(early, self._sizes(early), self._memory):
                yield from self._group(group, fresh=self._model.changes)
            # What changes variables comes last: each part of it in a session of its own.
            rest = [t for t in self._tensors if t.name in late and t.name not in dead]
            for group in chunks(rest, self._sizes(rest), self._memory):
                yield from self._group(group, fresh=True)
        finally:
            self._close()

    def _group(self, group: Sequence[Any], *, fresh: bool) -> Iterator[tuple[str, Array | str]]:
        try:
            values = self._fetch(group, fresh=fresh)
        except ExecutionError as error:
            if len(group) > 1:
                middle = len(group) // 2
                yield from self._group(group[:middle], fresh=fresh)
                yield from self._group(group[middle:], fresh=fresh)
                return
            if any(words in str(error) for words in _NO_VALUE):
                yield group[0].name, _EMPTY
                return
            self._failures += 1
            if self._failures > _MOST_FAILURES:
                raise
            yield group[0].name, str(error)
            return
        values.reverse()
        for tensor in group:
            self._failures = 0
            yield tensor.name, plain(values.pop())

    def _fetch(self, tensors: Sequence[Any], *, fresh: bool) -> list[Any]:
        if fresh or self._session is None:
            self._close()
            self._session = new_session(self._model.graph)
            self._model.preparation.prepare(self._session, self._feeds)
        with tensorflow_told("fails in TensorFlow"):
            return list(self._session.run(list(tensors), self._feeds))

    def _dead(self) -> frozenset[str]:
        model = self._model
        ops_needed = needed((tensor.op for tensor in self._tensors), model.fed)
        return dead_tensors(
            model.graph,
            model.in_loops,
            ops_needed,
            model.fed | set(self._feeds),
            lambda tensors: self._fetch(tensors, fresh=model.changes),
        )

    def _behind_empty(self) -> set[Any]:
        """The ops that need a variable nothing gave a value."""
        self._fetch([], fresh=False)
        valueless = self._model.preparation.without_value(self._session)
        for op in in_order(self._model.graph) if valueless else ():
            if any(
                op_input.op in valueless and op_input.name not in self._feeds
                for op_input in op.inputs
            ):
                valueless.add(op)
        return valueless

    def _sizes(self, tensors: Sequence[Any]) -> dict[str, int]:
        """Bytes of *tensors*, those of unknown shape counted in a run of their own."""
        sizes: dict[str, int] = {}
        unknown: list[Any] = []
        for tensor in tensors:
            size = known_size(tensor)
            if size is not None:
                sizes[tensor.name] = size
            elif tensor.name in self._model.sizes:
                unknown.append(tensor)
        if unknown:
            counters = [self._model.sizes[tensor.name] for tensor in unknown]
            try:
                counted = self._fetch(counters, fresh=self._model.changes)
            except ExecutionError:
                return sizes  # one of them fails; which one is found when they are fetched
            for tensor, count in zip(unknown, counted, strict=True):
                sizes[tensor.name] = int(count) * item_size(tensor)
        return sizes

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
