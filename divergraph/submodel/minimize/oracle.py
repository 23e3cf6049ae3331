"""Oracles: what decides whether a part shows the failure, and which ones there are.

Oracles are plug-ins too (entry points of the group ``divergraph.oracles``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from typing import Protocol, TypeAlias

from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import Selection, SelectionRequest
from graphstore.errors import InputError
from graphstore.model import OracleAnswer

ENTRY_POINT_GROUP = "divergraph.oracles"


class Part:
    """A convex set of golden ops of a run, as oracles see it."""

    def __init__(self, parts: RunParts, ops: tuple[str, ...]) -> None:
        self.parts = parts
        self.ops = ops

    @cached_property
    def selection(self) -> Selection:
        """The part with its boundary; refused where a value at it was not dumped."""
        root = [op for op in self.ops if not self.parts.selector.ops[op].subgraph]
        wish = SelectionRequest(self.parts.fused, whole=True)
        return self.parts.selector.hull(root, wish)


class Oracle(Protocol):
    """Judges parts of one run. May be asked from several threads."""

    identity: str
    """Everything an answer depends on besides the part; the key under which answers are kept."""
    variants: tuple[Variant, ...]
    """The inputs it can feed, best first."""

    def judge(self, part: Part, variant: Variant) -> OracleAnswer:
        """Whether *part* fails on inputs of that kind; UNKNOWN if undecided.

        Raises:
            InputError: it can judge nothing at all (a program that is not there).
        """
        ...

    def cancel(self) -> None:
        """End calls that are under way in other threads, as far as they can be ended."""
        ...

    def close(self) -> None:
        """Release models and programs."""
        ...


@dataclass(frozen=True, slots=True)
class OracleOptions:
    """``timeout`` seconds for one part; ``factor``: how many noise floors an output may be
    off."""

    timeout: float = 600.0
    factor: float = 3.0


OracleFactory: TypeAlias = Callable[[RunParts, str, OracleOptions], Oracle]
"""Creates an oracle from the ARGUMENT of ``--oracle NAME:ARGUMENT``."""

_OWN: Mapping[str, str] = {
    "evidence": "evidence:IntroducedErrorOracle",
    "device-model": "device_model:DeviceModel",
    "stand-in": "stand_in:StandInOracle",
    "command": "command:Command",
}


def open_oracle(parts: RunParts, text: str, options: OracleOptions) -> Oracle:
    """The oracle ``NAME`` or ``NAME:ARGUMENT``.

    Raises:
        InputError: there is none of that name, or it cannot work on this run.
    """
    name, _, argument = text.partition(":")
    if name in _OWN:
        module, _, maker = _OWN[name].partition(":")
        factory: OracleFactory = getattr(
            import_module(f"divergraph.submodel.minimize.{module}"), maker
        )
        return factory(parts, argument, options)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            make_oracle: OracleFactory = entry.load()
            return make_oracle(parts, argument, options)
    others = sorted({*_OWN, *(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))})
    raise InputError(f"there is no oracle {name!r}", hint=f"there are: {', '.join(others)}")


TEMPLATES = ("atc", "tensorrt", "openvino")


def template_text(name: str) -> str:
    """The program, as text.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    place = files("divergraph.submodel.minimize") / "templates" / f"{name}.txt"
    return place.read_text(encoding="utf-8")
