"""What an OpenVINO ``.xml`` says, as plain values: nets of layers, ports, edges and bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a layer; ``dims`` is None where the file gives none: a scalar, or a
    tensor of any rank."""

    id: int
    precision: str
    names: tuple[str, ...]
    dims: tuple[int | None, ...] | None
    line: int


class Wire(NamedTuple):
    """An edge from an output to an input, both as (layer, port)."""

    source: tuple[int, int]
    target: tuple[int, int]
    line: int


class BodyPort(NamedTuple):
    """Port *outer* of a layer stands for the Parameter or Result *inner* of its body."""

    outer: int
    inner: int
    is_input: bool
    line: int


@dataclass(slots=True)
class IrLayer:
    """One layer; ``bodies`` and ``ports`` (which ports enter and leave a body) go by role:
    ``body``, ``then_body``, ``else_body``."""

    id: int
    name: str
    type: str
    version: str
    line: int
    data: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    bodies: dict[str, IrNet] = field(default_factory=dict)
    ports: dict[str, list[BodyPort]] = field(default_factory=dict)


@dataclass(slots=True)
class IrNet:
    """A net or the body of a layer; ``facts`` is what the net says of itself."""

    name: str
    version: int
    layers: dict[int, IrLayer] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
