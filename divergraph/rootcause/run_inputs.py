"""What the analysis of a run works on, and what it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from divergraph.graphs.pairing import Pair
from divergraph.rootcause.devices.quantisers import Constant
from divergraph.rootcause.groups.groups import Group
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DeviceArithmetic,
    ErrorSplit,
    Finding,
    InputMismatch,
    Reckoning,
    TensorRef,
)
from importers.dumps.index import DumpIndex


@dataclass(frozen=True, slots=True)
class RunSources:
    """Where a run's values are: both models' files, both dumps, what was compared."""

    golden_path: Path
    device_path: Path
    golden_dump: DumpIndex
    device_dump: DumpIndex
    pairs: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What an analysis works on: both graphs of a run, where its values are, and the
    ``comparisons`` that are to be split. ``device_constant`` gives the device model's own
    constants by name, where they are known."""

    data: RunData
    sources: RunSources
    comparisons: Sequence[Comparison]
    device_constant: Constant


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits by device output, and what they were made with."""

    by_output: Mapping[TensorRef, ErrorSplit]
    groups: Mapping[TensorRef, Group]
    arithmetic: DeviceArithmetic
    executor: str
    entries: tuple[InputMismatch, ...]
    findings: tuple[Finding, ...] = ()
    births: frozenset[TensorRef] = frozenset()
    assumed: Mapping[TensorRef, str] = field(default_factory=dict)
    """By output: the input of the model that was taken from the golden side."""
    remarks: tuple[str, ...] = ()
    """What is said of the device's arithmetic."""
    reckonings: tuple[Reckoning, ...] = ()
    """How outputs over half the limit of suspects were judged."""
