"""The gradients of parameters in a rank's dump, and what is read behind the way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from graphstore.model import TensorIO
from importers.msprobe.calls import CallTensor, Key, call_of
from importers.msprobe.collectives import KIND
from importers.msprobe.importer import RunFiles

Leaf: TypeAlias = Mapping[str, Any]
"""A tensor as the entry of its call has it."""

MARK = b".parameters_grad"
"""What a ``dump.json`` with gradients of parameters has in it."""


class TensorOfCall(NamedTuple):
    """A tensor of a call."""

    call: str
    io: TensorIO
    port: int
    leaf: Leaf
    tensor: CallTensor


@dataclass(frozen=True)
class Gradients:
    """What a rank's dump has of gradients: those of its parameters by name, what is read behind
    them by the name of the tensor, and the keys of its weights by name."""

    path: Path
    given: Mapping[str, TensorOfCall]
    read: Mapping[str, TensorOfCall]
    weights: Mapping[str, Key]


def gradients_of(files: RunFiles) -> Gradients | None:
    """What the run *files* says of gradients; None where it has none of parameters."""
    given: dict[str, TensorOfCall] = {}
    behind: list[tuple[str, Leaf]] = []
    weights: dict[str, Key] = {}
    made: set[Key] = set()
    for name, entry in (files.calls or {}).items():
        if not isinstance(entry, dict):
            continue
        if f"{MARK.decode()}." in name:
            for place in _tensors(name, entry, TensorIO.OUTPUT):
                parameter = place.tensor.name.removeprefix(f"{name}.").partition(".")[0]
                given[_parameter(name, parameter)] = place
            behind.clear()
        elif name.startswith(KIND):
            made |= {place.tensor.key for place in _tensors(name, entry, TensorIO.OUTPUT)}
        elif name.endswith(".forward"):
            behind.append((name, entry))
        if isinstance(entry.get("parameters"), dict):
            for tensor in call_of(name, entry).parameters:
                parameter = tensor.name.rpartition(".parameters.")[2]
                weights[_parameter(name, parameter)] = tensor.key
    if not given or not behind:
        return None
    read: dict[str, TensorOfCall] = {}
    known = set(weights.values())
    for name, entry in behind:
        for place in _tensors(name, entry, TensorIO.INPUT):
            key = place.tensor.key
            if key and key not in known and key not in made:
                read[place.tensor.name] = place
                made.add(key)  # others that read it read what this one does
        made |= {place.tensor.key for place in _tensors(name, entry, TensorIO.OUTPUT)}
    return Gradients(files.path, given, read, weights)


def _tensors(name: str, entry: Leaf, io: TensorIO) -> Iterator[TensorOfCall]:
    from importers.dumps.msprobe.index import tensors_of  # readers of dumps load protobuf

    call = call_of(name, entry)
    tensors = call.inputs if io is TensorIO.INPUT else call.outputs
    for port, (tensor, leaf) in enumerate(zip(tensors, tensors_of(name, entry, io), strict=False)):
        yield TensorOfCall(name, io, port, leaf, tensor)


def _parameter(call: str, parameter: str) -> str:
    """``blocks.0.up.weight`` of the module's call ``Module.module.blocks.0.up.Linear.forward.0``;
    the wrapper goes by no name."""
    path = call.split(".")[1:-3]
    return ".".join([*(path[1:] if path[:1] == ["module"] else path), parameter])
