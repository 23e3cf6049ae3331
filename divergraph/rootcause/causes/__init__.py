"""Why an op introduces an error, in words, with the numbers behind it."""

from __future__ import annotations

from divergraph.rootcause.causes.evidence import (
    FaultEvidence,
    Foreign,
    InsideStep,
    OtherTensors,
    Rerun,
    Reweigh,
    TensorHashes,
)
from divergraph.rootcause.causes.rules import explain

__all__ = [
    "FaultEvidence",
    "Foreign",
    "InsideStep",
    "OtherTensors",
    "Rerun",
    "Reweigh",
    "TensorHashes",
    "explain",
]
