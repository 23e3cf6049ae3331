"""The calls of a recorded run, each standing alone on what it read itself.

The files do not say which tensor went where, and views and casts between calls are not recorded.
But each call's own inputs are, so no edge is needed to run it again. A way back is fed the
recorded gradients, and what its way there read and made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from graphstore.model import AttrValue, DType, InputRef, ModelGraph, Op, Tensor, TensorIO
from importers.dumps.index import TensorKey
from importers.msprobe.calls import CallName
from importers.msprobe.graph import ARGUMENTS, output_places

GRADIENT, MADE, PARAMETER = "grad.", "made.", "parameters."
"""What begins the place of a gradient that comes in, of what the way there made, and of a module's
parameter. Other places are those of arguments."""
ALONE = "recorded calls"
"""The format of a graph whose ops are calls that stand alone."""
GIVES = "gives"
"""The attribute with the places of a call's outputs in what it returned: where some are None, as
among gradients, these are not the numbers of the outputs."""
CALLS = "calls"
"""The attribute of a module that hands all it takes to one function: the type of that call. The
arguments it does so with, an epsilon or a stride, no file says of the module itself."""
TAKEN = "input."
"""What begins the attributes with the arguments of a call that are no tensors."""
_ROUNDED = frozenset({DType.FLOAT16, DType.BFLOAT16})
_Places: TypeAlias = dict[str, tuple[TensorKey, DType | None]]
_Types: TypeAlias = Callable[[InputRef], DType | None]


@dataclass(frozen=True, slots=True)
class CallsAlone:
    """``graph`` has the ops under their ids, each with inputs of its own; ``sources`` says of each
    of these inputs where a dump has its values."""

    graph: ModelGraph
    sources: Mapping[str, TensorKey]


def input_name(op: str, place: str) -> str:
    """The name of an input of the op with the id *op*. The *place* is that of an argument (``0``,
    ``1.2`` of a list, ``dim``), or begins with :data:`GRADIENT`, :data:`MADE` or
    :data:`PARAMETER`."""
    return f"{op} < {place}"


def calls_alone(graph: ModelGraph) -> CallsAlone:
    """The calls of *graph*, a recorded run, without the edges between them.

    Inputs are called by :func:`input_name`. Types of 16 bits are declared float32: that is what
    their values are read as and computed in.
    """
    named = {op.name: op for op in graph.ops}
    arguments = _arguments(graph, named)
    declared = {tensor.name: tensor.dtype for tensor in graph.inputs}
    declared.update((each.tensor.name, each.tensor.dtype) for each in graph.constants)
    made = {
        ref: tensor.dtype
        for op in graph.ops
        for ref, tensor in zip(op.makes, op.outputs, strict=True)
    }

    def types(ref: InputRef) -> DType | None:
        # Equal statistics joined it to its producer, so the type is the same; the shape may not be.
        return declared.get(ref.tensor) if ref.producer is None else made.get(ref.producer)

    ops: list[Op] = []
    inputs: list[Tensor] = []
    sources: dict[str, TensorKey] = {}
    for op in graph.ops:
        before = [named.get(name) for name in CallName.of(op.name).before]
        places = _places(op, before, types)
        names = {place: input_name(op.id, place) for place in places}
        for place, (key, dtype) in places.items():
            sources[names[place]] = key
            inputs.append(as_read(Tensor(names[place], dtype)))
        there = before[0] if before else op
        own = {} if there is None else arguments.get(there.name, {})
        ops.append(_alone(op, before, tuple(places), tuple(names.values()), own))
    alone = replace(
        graph, format=ALONE, ops=tuple(ops), inputs=tuple(inputs), subgraphs=(), constants=()
    )
    return CallsAlone(alone, sources)


def _arguments(graph: ModelGraph, named: Mapping[str, Op]) -> dict[str, dict[str, AttrValue]]:
    """By the name of a module that is one call of a function, what that is called with."""
    inside: dict[str, list[Op]] = {}
    for op in graph.ops:
        if isinstance(module := op.attrs.get("inside"), str):
            inside.setdefault(module, []).append(op)
    return {
        name: {
            CALLS: calls[0].type,
            **{key: value for key, value in calls[0].attrs.items() if key.startswith(TAKEN)},
        }
        for name, calls in inside.items()
        if len(calls) == 1 and name in named and _is_one_call(named[name], calls[0])
    }


def _is_one_call(module: Op, call: Op) -> bool:
    """Whether *module* gives what the *call* inside makes of its first argument and parameters."""
    producers = {ref.producer for ref in module.inputs if ref is not None}
    parameters = {ref.tensor for ref in module.inputs if ref is not None}
    return not producers.isdisjoint(call.makes) and all(
        ref is None or ref.tensor in parameters for ref in call.inputs[1:]
    )


def runnable(graph: ModelGraph) -> ModelGraph:
    """*graph* as an executor takes it: of a recorded run, whose edges are guessed, calls alone."""
    return calls_alone(graph).graph if graph.has_guessed_edges else graph


def _alone(
    op: Op,
    before: list[Op | None],
    places: tuple[str, ...],
    names: tuple[str, ...],
    arguments: Mapping[str, AttrValue],
) -> Op:
    attrs = dict(arguments)
    for each in (*before, op):
        attrs.update({} if each is None else each.attrs)
    attrs[ARGUMENTS] = places
    attrs[GIVES] = output_places(op)
    return replace(
        op,
        inputs=tuple(map(InputRef, names)),
        control_inputs=(),
        outputs=tuple(map(as_read, op.outputs)),
        attrs=attrs,
        subgraph="",
        owns=(),
    )


def as_read(tensor: Tensor) -> Tensor:
    """*tensor* as its values are read and computed: of types of 16 bits float32."""
    return replace(tensor, dtype=DType.FLOAT32) if tensor.dtype in _ROUNDED else tensor


def _places(op: Op, before: list[Op | None], types: _Types) -> _Places:
    """What *op* is run on, by place: where its values lie, and their type."""
    way = CallName.of(op.name).way
    if way not in ("backward", "parameters_grad"):
        return dict(_read(op, types))
    places: _Places = {}
    there = before[0] if before else None
    back = op if way == "backward" else before[-1]
    if there is not None:
        places.update(_read(there, types))
        for port, tensor in enumerate(there.outputs):
            places[f"{MADE}{port}"] = (there.id, TensorIO.OUTPUT, port), tensor.dtype
    if back is not None:
        places.update((f"{GRADIENT}{place}", each) for place, each in _read(back, types))
    return places


def _read(op: Op, types: _Types) -> Iterator[tuple[str, tuple[TensorKey, DType | None]]]:
    arguments = op.attrs.get(ARGUMENTS, ())
    arguments = arguments if isinstance(arguments, tuple) else ()
    parameters = f"{op.name}.{PARAMETER}"
    for port, ref in enumerate(op.inputs):
        if ref is None:
            continue
        place = (op.id, TensorIO.INPUT, port), types(ref)
        if port < len(arguments):
            yield str(arguments[port]), place
        elif ref.tensor.startswith(parameters):
            yield ref.tensor.removeprefix(f"{op.name}."), place
