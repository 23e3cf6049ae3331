"""What the analysis of a run works on, and what it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.execute.contract import Array
from divergraph.graphs.pairing import Pair
from divergraph.rootcause.devices.quantisers import Constant
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.tolerances.graph_inputs import InputMismatch
from graphstore.model import (
    Comparison,
    ErrorSplit,
    Finding,
    LineageLink,
    ModelGraph,
    TensorRef,
)
from importers.dumps import DumpIndex


def _unknown_constant(_name: str) -> Array | None:
    return None


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What an analysis works on: both graphs, both dumps, and what was held against what.

    ``device_constant`` gives the device model's own constants by name, where they are known.
    """

    golden: ModelGraph
    device: ModelGraph
    golden_dump: DumpIndex
    device_dump: DumpIndex
    pairs: Sequence[Pair]
    comparisons: Sequence[Comparison]
    links: Sequence[LineageLink] = ()
    device_constant: Constant = _unknown_constant


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits by device output, and what they were made with."""

    by_output: Mapping[TensorRef, ErrorSplit]
    groups: Mapping[TensorRef, Group]
    precision: str
    precisions: Mapping[str, int]
    executor: str
    entries: tuple[InputMismatch, ...]
    findings: tuple[Finding, ...] = ()
    births: frozenset[TensorRef] = frozenset()
    assumed: Mapping[TensorRef, str] = field(default_factory=dict)
    """By output: the input of the model that was taken from the golden side."""
    remarks: tuple[str, ...] = ()
    """What is said of the device's arithmetic."""
    kept: frozenset[TensorRef] = frozenset()
    """Tensors of ops that stay in float32 on a device of 16 bits."""
    operands: Mapping[str, str] = field(default_factory=dict)
    """By family of matrix ops how float32 operands are taken, where that is not in full."""
    functions: Mapping[str, float] = field(default_factory=dict)
    """By op type how far functions are off that the device approximates in float32."""
