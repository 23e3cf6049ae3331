"""Why an op introduces an error, in words, with the numbers behind it."""

from __future__ import annotations

from divergraph.root_cause.causes.case import Case, OtherTensors, Rerun, TensorHashes
from divergraph.root_cause.causes.hiding import hidden, where_hidden
from divergraph.root_cause.causes.rules import explain

__all__ = [
    "Case",
    "OtherTensors",
    "Rerun",
    "TensorHashes",
    "explain",
    "hidden",
    "where_hidden",
]
