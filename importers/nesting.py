"""What bodies inside of bodies mean: who reads what enters them, and what inlining names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from graphstore.model import Framework, ModelGraph, Subgraph


class BodyInput(NamedTuple):
    """Input *position* of *op*, in a body, takes what the body's owner has at input *entry*."""

    entry: int
    op: str
    position: int


def with_inner_readers(
    bodies: Sequence[Subgraph], readings: Mapping[str, Sequence[BodyInput]]
) -> list[Subgraph]:
    """*bodies*, outer ones first, with their inputs: by *readings*, and by those further in.

    An op that hands an argument of its body on to a body of its own reads it only in name;
    the value is read by the ops in there.
    """
    owned: dict[str, list[str]] = {}
    for body in bodies:
        owned.setdefault(body.owner, []).append(body.name)
    inputs: dict[str, dict[tuple[int, str], None]] = {}
    for body in reversed(bodies):
        entries: dict[tuple[int, str], None] = {}
        for reading in readings.get(body.name, ()):
            entries[reading.entry, reading.op] = None
            for inner in owned.get(reading.op, ()):
                for entry, op in inputs.get(inner, ()):
                    if entry == reading.position:
                        entries[reading.entry, op] = None
        inputs[body.name] = entries
    return [
        replace(body, inputs=tuple(sorted(inputs[body.name], key=itemgetter(0)))) for body in bodies
    ]


def inlined_names(graph: ModelGraph) -> dict[str, str]:
    """What TensorFlow calls the ops of called functions once it has inlined them, by op id.

    An op is then named ``<call>/<op>``, and a graph made from the inlined one (a frozen graph,
    a compiled model) says these names. Source: InlineFunctionBody of TensorFlow's
    common_runtime/inline_function_utils.cc. Ops that are in no called function are left out.
    """
    if graph.framework is not Framework.TENSORFLOW:
        return {}
    called = {body.name: body.owner for body in graph.subgraphs if body.role == "f"}
    names: dict[str, str] = {}
    for op in graph.ops:  # owners come before what is in their bodies
        owner = called.get(op.subgraph)
        if owner is not None:
            names[op.id] = f"{names.get(owner, owner)}/{op.name}"
    return names
