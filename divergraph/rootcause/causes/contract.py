"""What a cause is: a rule that says why an output is wrong, and the labels it may give.

Each module of this folder lists its rules as ``CAUSES``; installed packages name more as entry
points of the group ``divergraph.causes``, each such a tuple. The first rule that is sure says the
cause: what is exact comes before what fits a model, what has few parameters before what has many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TypeAlias

from divergraph.rootcause.causes.evidence import Cause, SampledTensors
from divergraph.rootcause.registry import discovered

ENTRY_POINT_GROUP = "divergraph.causes"

Explain: TypeAlias = Callable[[SampledTensors], "Cause | None"]


class CauseStage(IntEnum):
    """How much a rule takes for granted: stages are tried in this order."""

    NO_NUMBER = 1
    """NaN and infinities: asked even where all that are numbers are right."""
    MISSING = 2
    """Nothing was written or done, in whole or in part."""
    FUNCTION = 3
    """Each value is another function of the expected one, or of an op before."""
    RERUN = 4
    """The op run in another way gives just what the device has."""
    ORDER = 5
    """The right values in other places."""
    LINE = 6
    """Gains and offsets: few parameters that fit."""
    PART = 7
    """Only a part is wrong, or every value sits on a grid."""
    VAGUE = 8
    """What is seen of the values, with no way to predict them."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One rule. ``labels`` are what it alone declares, each with the most confidence it may have in
    a group of several ops: an error before other ops may look like it behind them. It may give
    labels other rules declare, too. ``order`` is its place within the ``stage``; ``of_a_part``
    says that it may be asked of the wrong part of an output by itself.
    """

    explain: Explain
    stage: CauseStage
    order: int
    labels: Mapping[str, float] = field(default_factory=dict)
    of_a_part: bool = False

    @property
    def name(self) -> str:
        """That of the function."""
        return self.explain.__name__


@cache
def cause_rules() -> tuple[CauseRule, ...]:
    """All that are installed, in the order they are tried."""
    found: list[CauseRule] = []
    for each in discovered(str(__package__), "CAUSES", ENTRY_POINT_GROUP):
        if isinstance(each, tuple):
            found += [rule for rule in each if isinstance(rule, CauseRule)]
    return tuple(sorted(found, key=lambda each: (each.stage, each.order, each.name)))


@cache
def rules_of_a_part() -> tuple[Explain, ...]:
    """Those that need nothing but the values, for outputs of which only a part is wrong."""
    return tuple(each.explain for each in cause_rules() if each.of_a_part)


@cache
def most_confidence() -> Mapping[str, float]:
    """By label the most confidence it may have in a group of several ops."""
    return {label: most for rule in cause_rules() for label, most in rule.labels.items()}
