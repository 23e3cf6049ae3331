"""What bodies inside of bodies mean: who reads what enters them, and what inlining names them."""

from __future__ import annotations

import json
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


# What is wrong with a JSON text, in words for users: Python's own speak to programmers.


_FAULTS = {
    "Expecting value": "a value is missing here, or what stands here is none",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing here",
    "Expecting ':' delimiter": "a colon is missing here",
    "Expecting property name enclosed in double quotes": "a name in double quotes is missing here",
    "Illegal trailing comma before end of object": "a comma too many",
    "Illegal trailing comma before end of array": "a comma too many",
    "Extra data": "it has ended before this",
    "Unterminated string starting at": "the text that starts here has no end quote",
    "Invalid control character at": "a text has a line end or control character here",
}


def json_fault(error: ValueError | RecursionError) -> str:
    """What ``json.loads`` found, in a phrase."""
    if isinstance(error, json.JSONDecodeError):
        if not error.doc[error.pos :].strip():
            return "it ends too early, as if it was cut"
        fault = _FAULTS.get(error.msg.removesuffix(": "))
        return fault or "an escape that JSON does not know"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "a number with too many digits"
