"""Compresses the path of an error: consecutive ops that only carry it become one line."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from divergraph.ask.error_paths.path_steps import PathSteps
from graphstore.columns.coded import Int

FEWEST = 3
"""The fewest consecutive ops that are folded."""


def folded(steps: PathSteps) -> Iterator[tuple[int, PathSteps]]:
    """(number of the first, steps): single steps, and sequences of ops that only carry."""
    starts = fold_starts(steps)
    ends = np.append(starts, len(steps))[1:]
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        yield first, steps[first:last]


def fold_starts(steps: PathSteps) -> Int:
    """The numbers of the steps at which a line begins."""
    if not len(steps):
        return np.zeros(0, dtype=np.int32)
    plain = steps.only_carry.copy()
    plain[[0, -1]] = False  # the ends are always told
    edges = np.flatnonzero(np.diff(plain))  # plain stretches begin and end behind these
    first, last = edges[::2] + 1, edges[1::2] + 1
    begins = np.ones(len(plain), dtype=np.int32)
    long = last - first >= FEWEST
    inner = np.zeros(len(plain) + 1, dtype=np.int32)
    np.add.at(inner, first[long] + 1, 1)
    np.add.at(inner, last[long], -1)
    begins[np.cumsum(inner[:-1]) > 0] = 0
    return np.flatnonzero(begins).astype(np.int32)


def fold_text(steps: PathSteps) -> str:
    """``17 ops, gain 0.93 to 1.04``."""
    gains = steps.gains[~np.isnan(steps.gains)]
    if not len(gains):
        return f"{len(steps)} ops"
    return f"{len(steps)} ops, gain {gains.min():.2f} to {gains.max():.2f}"
