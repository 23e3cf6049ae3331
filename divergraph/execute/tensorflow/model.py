"""A TensorFlow model opened for running: its graph, its step, the state before the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.calls_in_place import calls_in_place
from divergraph.execute.tensorflow.chunks import known_size
from divergraph.execute.tensorflow.files import (
    first_line,
    load_meta_graph,
    new_session,
    saved_values,
    tensorflow,
    tensorflow_errors,
)
from divergraph.execute.tensorflow.inlining import inline_calls
from divergraph.execute.tensorflow.state import (
    FirstValues,
    Preparation,
    initializers,
    own_paths,
    values_of_dump,
)
from divergraph.execute.tensorflow.step import (
    Step,
    changes_outside,
    find_step,
    is_variable,
    loops,
    needed,
)
from divergraph.execute.tensorflow.subgraphs import RunnableSubgraphs, producer_ops
from divergraph.execute.tensorflow.values import plain
from divergraph.execute.tensorflow.variable_ops import HANDLES, READS
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
    inline_calls(meta.graph_def, graph, fed)
    paths = own_paths(meta)
    outside = keep_inside(meta.graph_def, paths)
    no_part = {path.partition(":")[0]: "takes the path of a file" for path in paths} | outside
    imported = _imported(meta, graph)
    for name in fed:
        _check_tensor(imported, name)
    first_ops = initializers(imported, meta)
    train = _train_ops(imported, meta, options.get("train_op", ""))
    closed = changes_outside(meta.graph_def) | _other_signatures(meta, options)
    step = find_step(imported, train, frozenset(first_ops.values()), fed, closed, no_part)
    used = needed((imported.get_tensor_by_name(name).op for name in step.tensors), fed)
    preparation = Preparation(imported, meta, _first_values(graph, options), used, fed, outside)
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
    try:
        with imported.as_default():
            tf.compat.v1.import_graph_def(
                meta.graph_def, name="", producer_op_list=producer_ops(meta)
            )
    except tensorflow_errors() as error:
        raise ExecutionError(
            f"TensorFlow refuses the model: {first_line(error)}", where=graph.source
        ) from error
    return imported


def _check_tensor(graph: Any, name: str) -> None:
    try:
        graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        raise InputError(f"the model has no tensor {name!r} to feed") from error


def _train_ops(graph: Any, meta: Any, asked: str) -> list[str]:
    names = [name for name in asked.split(",") if name]
    known = {op.name for op in graph.get_operations()}
    for name in names:
        if name.partition(":")[0] not in known:
            raise InputError(f"the model has no op {name!r} to end the step with")
    if not names and "train_op" in meta.collection_def:
        names = list(meta.collection_def["train_op"].node_list.value)
    return [name.partition(":")[0] for name in names if name.partition(":")[0] in known]


def _other_signatures(meta: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The placeholders that only other signatures than the one to run take, and whose they are."""
    asked = options.get("signature", "")
    if asked and asked not in meta.signature_def:
        listed = ", ".join(sorted(meta.signature_def)) or "none"
        raise InputError(f"the model has no signature {asked!r}", hint=f"there are: {listed}")
    inputs = {
        name: {info.name.partition(":")[0] for info in signature.inputs.values()}
        for name, signature in meta.signature_def.items()
    }
    chosen = asked or "serving_default"
    if chosen not in inputs:
        return {}
    return {
        placeholder: f"belongs to signature {name}"
        for name in sorted(inputs)
        for placeholder in inputs[name] - inputs[chosen]
    }


def _first_values(graph: ModelGraph, options: Mapping[str, str]) -> FirstValues:
    folder = options.get("variables", "")
    arrays = values_of_dump(graph, Path(folder)) if folder else {}
    return FirstValues(options.get("checkpoint", "") or saved_values(graph), arrays)


def _moves(op: Any) -> bool:
    return (
        op.op_def is not None
        and op.op_def.is_stateful
        and not (is_variable(op) or op.type in _STEADY)
    )


def _counters(graph: Any, step: Step) -> dict[str, Any]:
    tf = tensorflow()
    found: dict[str, Any] = {}
    with graph.as_default():
        for name in step.tensors:
            tensor = graph.get_tensor_by_name(name)
            if name not in step.late and known_size(tensor) is None:
                found[name] = tf.raw_ops.Size(input=tensor, out_type=tf.int64)
    return found
