"""The fusion passes that made ops, and the file that switches them off."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from graphstore.model import AttrValue
from importers.fusion_result import BUFFER_PASSES, GRAPH_PASSES, read_fusion_result

ALL = "ALL"
"""Stands for every pass of a section in a switch file."""

_IN_BUFFERS = re.compile(r"Tbe|.*UB|.*Ub|.*BufferFusion")
"""Passes that put ops into one kernel, by how their names begin."""
_COUNTED = re.compile(r"(?P<name>.+): (?P<effected>\d+) of (?P<matched>\d+)")


class PassSection(StrEnum):
    """The parts of a fusion switch file."""

    GRAPH = "GraphFusion"
    BUFFER = "UBFusion"


@dataclass(frozen=True, slots=True, order=True)
class NamedPass:
    """A fusion pass and its section of a switch file."""

    name: str
    section: PassSection


@dataclass(frozen=True, slots=True)
class PassInEffect:
    """How often a pass changed a graph, of how many matches."""

    name: str
    section: PassSection
    effected: int
    matched: int


def passes_of(attrs: Mapping[str, AttrValue]) -> tuple[NamedPass, ...]:
    """The passes that made an op with these attributes, each once."""
    named_passes: list[NamedPass] = []
    for attribute in ("pass_name", "pass_name_ub"):
        attr = attrs.get(attribute, ())
        names = (attr,) if isinstance(attr, str) else attr if isinstance(attr, tuple) else ()
        in_buffers = attribute == "pass_name_ub"
        named_passes += [_named(str(name), in_buffers=in_buffers) for name in names]
    return tuple(dict.fromkeys(named_passes))


def _named(name: str, *, in_buffers: bool = False) -> NamedPass:
    is_buffer = in_buffers or _IN_BUFFERS.match(name) is not None
    return NamedPass(name, PassSection.BUFFER if is_buffer else PassSection.GRAPH)


def passes_in_effect(attrs: Mapping[str, AttrValue]) -> tuple[PassInEffect, ...]:
    """The passes that changed a graph with these attributes, the most frequent of each section
    first; none where no ``fusion_result.json`` lay beside it."""
    passes = []
    for attribute, section in (
        (GRAPH_PASSES, PassSection.GRAPH),
        (BUFFER_PASSES, PassSection.BUFFER),
    ):
        attr = attrs.get(attribute, ())
        for text in attr if isinstance(attr, tuple) else (attr,):
            if match := _COUNTED.fullmatch(str(text)):
                times = int(match["effected"]), int(match["matched"])
                passes.append(PassInEffect(match["name"], section, *times))
    return tuple(passes)


def listed_passes(path: Path) -> tuple[PassInEffect, ...]:
    """The passes that took effect by a ``fusion_result.json``, the most frequent first.

    Raises:
        ImportFormatError: it is none.
    """
    counts: Counter[tuple[str, PassSection]] = Counter()
    matched: Counter[tuple[str, PassSection]] = Counter()
    for graph in read_fusion_result(path):
        for section, passes in (
            (PassSection.GRAPH, graph.graph_passes),
            (PassSection.BUFFER, graph.buffer_passes),
        ):
            for fusion_pass in passes:
                counts[fusion_pass.name, section] += fusion_pass.effected
                matched[fusion_pass.name, section] += fusion_pass.matched
    ordered = sorted(counts, key=lambda key: (-counts[key], key))
    return tuple(PassInEffect(*key, counts[key], matched[key]) for key in ordered if counts[key])


def chosen_passes(names: Iterable[str], passes: Iterable[NamedPass] = ()) -> tuple[NamedPass, ...]:
    """The passes of these *names*, in the sections *passes* have; ``ALL`` is of both."""
    sections = {named_pass.name: named_pass for named_pass in passes}
    chosen: list[NamedPass] = []
    for name in names:
        if name == ALL:
            chosen += [NamedPass(ALL, section) for section in PassSection]
        else:
            chosen.append(sections.get(name) or _named(name))
    return tuple(dict.fromkeys(chosen))


def switch_text(off: Iterable[NamedPass], *, indent: int | None = None) -> str:
    """A fusion switch file in which these passes are off, and all others as they were."""
    sections: dict[str, dict[str, str]] = {section.value: {} for section in PassSection}
    for named_pass in off:
        sections[named_pass.section.value][named_pass.name] = "off"
    if indent is None:
        sections = {name: passes for name, passes in sections.items() if passes}
        return json.dumps({"Switch": sections}, separators=(",", ":"))
    return json.dumps({"Switch": sections}, indent=indent) + "\n"
