"""The state of each device op of a run and a few numbers of its outputs: what graphs show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphstore.columns.coded import Coded, Float
from graphstore.model import Metric, OpState

WORST_IS_LEAST = Metric.COSINE_SIMILARITY.value
"""Of all other figures the greatest is the worst."""
FIGURES = (
    Metric.RELATIVE_EUCLIDEAN_DISTANCE.value,
    WORST_IS_LEAST,
    Metric.MAX_ABSOLUTE_ERROR.value,
    "introduced",
    "suspicion",
)


@dataclass(frozen=True, slots=True, eq=False)
class OpFigures:
    """Of all device ops of a run in topo order: ``states``, and by the names ``FIGURES`` the worst
    of the outputs of each, NaN without one."""

    states: Coded[OpState | None]
    numbers: Mapping[str, Float]
