"""The tensors whose error blame explains: the golden model's outputs, or tensors before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from divergraph.rootcause.groups.op_graph import OpGraph
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import ModelGraph, TensorIO, TensorRef
from graphstore.traverse.reach import reached


def blamed_outputs(
    data: RunData, names: Sequence[str], runnable: Collection[str]
) -> frozenset[str]:
    """The names of the golden tensors whose errors are to be explained: *names*, else the
    outputs of the model that were compared and, before each that was not, the last tensors that
    were: a training step ends with updated variables, which are in no dump, so these are the
    gradients; before a class number they are its scores. All are *runnable* floats.

    Raises:
        InputError: a tensor asked for was not compared, or is not of floats.
    """
    graph = OpGraph(data.golden)
    can = set(runnable)
    compared = {
        item.golden
        for item in data.comparisons
        if item.io is TensorIO.OUTPUT and item.compared and item.golden is not None
    }
    compared = {ref for ref in compared if ref.op in graph.ops and graph.name(ref) in can}
    floats = {ref for ref in compared if _is_float(graph, ref)}
    if names:
        _check_asked(names, {graph.name(ref) for ref in compared}, {graph.name(r) for r in floats})
        return frozenset(names)
    ends = {TensorRef(ref.op, ref.port) for ref in data.golden.outputs}
    # A variable that nobody reads on is no result of the step, as an optimiser's own is not.
    ends = {ref for ref in ends if ref.op in graph.fed} or ends
    return frozenset(
        graph.name(ref) for ref in (ends & floats) | _last(graph, compared, ends - floats)
    )


def _check_asked(names: Sequence[str], compared: set[str], floats: set[str]) -> None:
    for name in names:
        if name not in compared:
            raise InputError(
                f"no tensor {name!r} of the golden model was compared",
                hint="names are those of the tensors in the golden model's file",
            )
        if name not in floats:
            raise InputError(
                f"tensor {name!r} is not of floats, so it has no error that adds up",
                hint="ask for the float tensors it is made of",
            )


def stand_ins(golden: ModelGraph, outputs: Iterable[str]) -> frozenset[str]:
    """Those of *outputs* that are not outputs of the model but stand in for some."""
    graph = OpGraph(golden)
    own = {graph.name(TensorRef(ref.op, ref.port)) for ref in golden.outputs if ref.op in graph.ops}
    return frozenset(outputs) - own


def tensors_before(golden: ModelGraph, outputs: Iterable[str], fed: Collection[str]) -> set[str]:
    """The names of the tensors from which *outputs* are computed, up to *fed*."""
    graph = OpGraph(golden)
    makers = {tensor.name: op for op in golden.ops for tensor in op.outputs}

    def before(name: str) -> list[str]:
        is_end = name in fed or name not in makers
        return [] if is_end else [ref.tensor for ref in graph.inputs(makers[name])]

    return set(reached(outputs, before))


def first_tensors(graph: OpGraph, tensors: Collection[str]) -> frozenset[str]:
    """Those of *tensors* that do not depend on any of the others."""
    later: set[str] = set()
    firsts: set[str] = set()
    for op in sorted(graph.ops.values(), key=lambda op: graph.rank[op.id]):
        names = {tensor.name for tensor in op.outputs}
        if any(ref.tensor in later for ref in graph.inputs(op)):
            later |= names
        elif own := names & set(tensors):
            firsts |= own
            later |= names
    return frozenset(firsts)


def tensor_names(graph: ModelGraph) -> dict[str, str]:
    """The names of all outputs of ops, by reference."""
    return {
        f"{op.id}:{port}": tensor.name for op in graph.ops for port, tensor in enumerate(op.outputs)
    }


def _last(graph: OpGraph, compared: set[TensorRef], ends: set[TensorRef]) -> set[TensorRef]:
    """The compared float tensors that are met first on the paths back from *ends*."""

    def before(ref: TensorRef) -> list[TensorRef]:
        if ref.op not in graph.ops or (ref in compared and ref not in ends):
            return []
        makers = (op_input.producer for op_input in graph.inputs(graph.ops[ref.op]))
        # Variables, and what is computed from them alone, are not results of the step.
        return [maker for maker in makers if maker is not None and maker.op in graph.fed]

    ends_reached = reached(ends, before)
    return {ref for ref in ends_reached if ref in compared - ends and _is_float(graph, ref)}


def _is_float(graph: OpGraph, ref: TensorRef) -> bool:
    kind = graph.ops[ref.op].outputs[ref.port].dtype
    return kind is None or kind.numpy is None or np.dtype(kind.numpy).kind == "f"
