"""The input and the result of a root-cause analysis."""

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
    """The files of a run: both models, both dumps, and the pairs of tensors compared.
    ``golden_options`` are those the golden model's executor is opened with."""

    golden_path: Path
    device_path: Path
    golden_dump: DumpIndex
    device_dump: DumpIndex
    pairs: Sequence[Pair]
    golden_options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What an analysis works on: a run, its files, and the ``comparisons`` whose errors are to be
    split. ``device_constant`` gives a constant of the device's model by name, None if unknown."""

    data: RunData
    sources: RunSources
    comparisons: Sequence[Comparison]
    device_constant: Constant


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits by device output, and how they were made."""

    by_output: Mapping[TensorRef, ErrorSplit]
    groups: Mapping[TensorRef, Group]
    arithmetic: DeviceArithmetic
    executor: str
    entries: tuple[InputMismatch, ...]
    findings: tuple[Finding, ...] = ()
    nonfinite: Mapping[TensorRef, bool] = field(default_factory=dict)
    """Outputs in which NaN or infinities arise, in the reference as well, and whether it is the
    steps of a quantiser that make them."""
    assumed: Mapping[TensorRef, str] = field(default_factory=dict)
    """By output: the graph input whose values came from golden, as the device did not dump it."""
    unsure: Mapping[TensorRef, InputMismatch] = field(default_factory=dict)
    """By output: the input that the device did not dump, other values of which explain the output
    as well as a fault of its op does."""
    remarks: tuple[str, ...] = ()
    """Sentences about the device's arithmetic and what could not be judged."""
    unexplained: str = ""
    """A doubt: what ops of a kind lose alike, as no arithmetic known here does."""
    reckonings: tuple[Reckoning, ...] = ()
    """How outputs over half the limit of suspects were judged."""
    misshapen: frozenset[TensorRef] = frozenset()
    """Outputs of another shape than golden's, since an op is wrong or behind one that is."""
