"""The user's pins: which tensors belong together, from a TOML file.

::

    [pin]                      # device tensor = golden tensor
    "conv1_fused:0" = "conv1/Relu:0"

    [forbid]                   # device tensor = golden tensors it is not, or "*"
    "tensor_17" = ["a:0", "b:0"]

A tensor is called by its name in its graph, or ``op:port``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from divergraph.files.os_errors import os_errors_told
from graphstore.errors import ConfigError
from graphstore.model import ModelGraph, TensorRef

EVERY = "*"


@dataclass(frozen=True, slots=True)
class Pins:
    """Device tensors with the golden ones they are (``pinned``) and are not (``forbidden``).

    A device tensor that ``is_alone`` has no counterpart at all.
    """

    pinned: Mapping[TensorRef, TensorRef] = field(default_factory=dict)
    forbidden: frozenset[tuple[TensorRef, TensorRef]] = frozenset()
    is_alone: frozenset[TensorRef] = frozenset()

    def allows(self, device: TensorRef, golden: TensorRef) -> bool:
        """Whether the two may be matched."""
        return device not in self.is_alone and (device, golden) not in self.forbidden


NO_PINS = Pins()


def read_pins(path: Path, golden: ModelGraph, device: ModelGraph) -> Pins:
    """The pins in *path*.

    Raises:
        ConfigError: not TOML, an unknown key, or a tensor the graphs do not have.
    """
    try:
        with os_errors_told("", path, kind=ConfigError):
            content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not readable as TOML: {error}", where=str(path)) from error
    unknown = set(content) - {"pin", "forbid"}
    if unknown:
        raise ConfigError(f"unknown key {sorted(unknown)[0]!r}", where=str(path), hint=_KEYS)
    on_device, on_golden = _Names(path, device, "device"), _Names(path, golden, "golden")
    pinned = {
        on_device.find(name): on_golden.find(_text(path, name, other))
        for name, other in _table(path, content, "pin").items()
    }
    forbidden: set[tuple[TensorRef, TensorRef]] = set()
    alone: set[TensorRef] = set()
    for name, others in _table(path, content, "forbid").items():
        ref = on_device.find(name)
        if others == EVERY:
            alone.add(ref)
            continue
        listed = others if isinstance(others, list) else [others]
        forbidden.update((ref, on_golden.find(_text(path, name, other))) for other in listed)
    return Pins(pinned, frozenset(forbidden), frozenset(alone))


_KEYS = "a match file has [pin] and [forbid]"


def _table(path: Path, content: Mapping[str, object], key: str) -> dict[str, object]:
    table = content.get(key, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{key} is not a table", where=str(path), hint=_KEYS)
    return table


def _text(path: Path, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"the value of {name!r} is not a tensor name", where=str(path))
    return value


class _Names:
    """Tensors of a graph by name."""

    def __init__(self, path: Path, graph: ModelGraph, side: str) -> None:
        self._path = path
        self._side = side
        self._known: dict[str, TensorRef] = {}
        for op in graph.ops:
            for ref, tensor in zip(op.makes, op.outputs, strict=True):
                for name in filter(None, (f"{op.id}:{ref.port}", tensor.name)):
                    self._known.setdefault(name, ref)
            if op.outputs:
                self._known.setdefault(op.id, op.makes[0])

    def find(self, name: str) -> TensorRef:
        """The tensor called *name*."""
        if name not in self._known:
            raise ConfigError(
                f"the {self._side} graph has no tensor {name!r}", where=str(self._path)
            )
        return self._known[name]
