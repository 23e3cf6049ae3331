"""Why an op introduces an error, in words, with the numbers behind it."""

from __future__ import annotations

from divergraph.root_cause.causes.case import (
    Case,
    Foreign,
    InsideStep,
    OtherTensors,
    Rerun,
    Reweigh,
    TensorHashes,
)
from divergraph.root_cause.causes.hiding import hidden, nonfinite_ops, where_hidden
from divergraph.root_cause.causes.rules import explain

__all__ = [
    "Case",
    "Foreign",
    "InsideStep",
    "OtherTensors",
    "Rerun",
    "Reweigh",
    "TensorHashes",
    "explain",
    "hidden",
    "nonfinite_ops",
    "where_hidden",
]
