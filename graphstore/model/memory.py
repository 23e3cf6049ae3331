"""What a team keeps beside its runs: notes on a model's ops, and which run others are held against.

Both belong to a model, known by the id of its golden graph: they outlive every run and compilation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody wrote of the golden op ``op`` of a ``model``, or of its ``output`` alone.

    ``created`` and ``edited`` are ISO 8601 times in UTC; a ``bookmark`` need not say anything.
    """

    id: str
    model: str
    op: str
    text: str
    author: str
    created: str
    output: int | None = None
    edited: str | None = None
    bookmark: bool = False

    @property
    def changed(self) -> str:
        """When it was last written."""
        return self.edited or self.created

    @property
    def about(self) -> str:
        """The op or tensor."""
        return self.op if self.output is None else f"{self.op}:{self.output}"


@dataclass(frozen=True, slots=True)
class Baseline:
    """The ``run`` of a ``model`` that others are held against; ``made`` is when that run was
    created, so that another run of its name is not taken for it."""

    model: str
    run: str
    made: str
    author: str
    created: str


class Standing(StrEnum):
    """How a run stands against the baseline of its model."""

    BASELINE = "baseline"
    """It is the baseline."""
    SAME = "same"
    BETTER = "better"
    WORSE = "worse"
    """Some op makes more error, whatever others do."""
    UNLIKE = "unlike"
    """The two have no original tensor in common."""
    PENDING = "pending"
    """Not reckoned yet: a list reckons some, the newest first."""


@dataclass(frozen=True, slots=True)
class RunStanding:
    """How ``run`` stands against the run ``baseline``, each known by when it was ``made``, too.

    ``changes`` counts ops by the kind of their change, ``decides`` is the weightiest in words.
    """

    run: str
    made: str
    baseline: str
    baseline_made: str
    standing: Standing
    changes: Mapping[str, int] = field(default_factory=dict)
    decides: str = ""
