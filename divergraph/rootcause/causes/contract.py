"""What a cause is: a rule that says why an output is wrong, and the labels it may give.

Each module of this folder lists its rules in ``CAUSES``; installed packages add more through entry
points of the group ``divergraph.causes``, each such a tuple. The first rule that is sure names the
cause: exact explanations come before fitted models, few parameters before many.

The numbers in this folder choose the words of a cause, never the guilt of an op, so they stand
beside their rules and not in ``calibration``. benchmarks/root_cause/causes_accuracy.py measures all
of them together: how often the label of an injected fault is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import TypeAlias

from divergraph.files.discovered import discovered
from divergraph.rootcause.causes.evidence import Cause, SampledTensors

ENTRY_POINT_GROUP = "divergraph.causes"

Explain: TypeAlias = Callable[[SampledTensors], "Cause | None"]


class CauseStage(IntEnum):
    """How much a rule assumes. Stages are tried in this order."""

    NO_NUMBER = 1
    """NaN and infinities; asked even if all finite values are right."""
    MISSING = 2
    """Nothing was written or computed, in whole or in part."""
    FUNCTION = 3
    """Each value is another function of the expected one, or of an op before."""
    RERUN = 4
    """The op, run in another way, gives exactly what the device has."""
    ORDER = 5
    """The right values in other places."""
    LINE = 6
    """Gains and offsets: a fit with few parameters."""
    PART = 7
    """Only a part is wrong, or every value lies on a grid."""
    VAGUE = 8
    """A description of the values, which does not predict them."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """One rule. ``labels`` are those it declares (no other rule does, though others may give them),
    each with its highest confidence in a group of several ops, where the ops behind a fault may
    disguise it. ``order`` is its place within the ``stage``. With ``of_a_part`` it is also asked
    of the wrong part of an output by itself.
    """

    explain: Explain
    stage: CauseStage
    order: int
    labels: Mapping[str, float] = field(default_factory=dict)
    of_a_part: bool = False

    @property
    def name(self) -> str:
        """The name of the rule's function."""
        return self.explain.__name__


@cache
def cause_rules() -> tuple[CauseRule, ...]:
    """All installed rules in the order in which they are tried."""
    rules: list[CauseRule] = []
    for rule_list in discovered(str(__package__), "CAUSES", ENTRY_POINT_GROUP):
        if isinstance(rule_list, tuple):
            rules += [rule for rule in rule_list if isinstance(rule, CauseRule)]
    return tuple(sorted(rules, key=lambda rule: (rule.stage, rule.order, rule.name)))


@cache
def rules_of_a_part() -> tuple[Explain, ...]:
    """The rules that need only values, asked of the wrong part of an output."""
    return tuple(rule.explain for rule in cause_rules() if rule.of_a_part)


@cache
def most_confidence() -> Mapping[str, float]:
    """By label its highest confidence in a group of several ops."""
    return {
        label: confidence for rule in cause_rules() for label, confidence in rule.labels.items()
    }
