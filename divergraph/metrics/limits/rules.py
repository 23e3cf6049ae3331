"""Rules: limits for all tensors, one type of element, one type of op, or some names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from divergraph.metrics.limits.quantities import QUANTITIES, WORST_ERROR, Quantity
from graphstore.model import DType, Metric

_DISTANCE = Metric.RELATIVE_EUCLIDEAN_DISTANCE.value
_LARGEST = Metric.MAX_ABSOLUTE_ERROR.value
_WILD = re.compile(r"[*?\[]")


class LimitScope(IntEnum):
    """Which tensors a rule is for; the higher, the more specific."""

    ALL = 0
    DTYPE = 1
    TYPE = 2
    NAME = 3


TABLES: Mapping[str, LimitScope] = {
    "dtypes": LimitScope.DTYPE,
    "types": LimitScope.TYPE,
    "names": LimitScope.NAME,
}


@dataclass(frozen=True)
class LimitRule:
    """Limits by quantity, None where the rule switches a quantity off.

    ``label`` is how a verdict names it. ``pattern`` is a name, or a glob for op types and names.
    ``supporting`` limits fail no tensor alone; they are only named for one that failed.
    """

    label: str
    fail: Mapping[str, float | None] = field(default_factory=dict)
    warn: Mapping[str, float | None] = field(default_factory=dict)
    scope: LimitScope = LimitScope.ALL
    pattern: str = ""
    built_in: bool = False
    supporting: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def specificity(self) -> tuple[bool, int, bool, int]:
        """Larger wins: a file's rule, its scope, an exact pattern, a longer one."""
        letters = len(_WILD.sub("", self.pattern))
        exact = _WILD.search(self.pattern) is None
        return not self.built_in, int(self.scope), exact, letters

    def matches(self, text: str) -> bool:
        """True if *text* (an op's type or name) is what the pattern means."""
        return bool(self.matcher()(text))

    def matcher(self) -> Callable[[str], object]:
        """:meth:`matches` as a function for many texts, true for those that fit. A name with
        brackets in it also fits itself."""
        pattern = f"(?:{fnmatch.translate(self.pattern)})|{re.escape(self.pattern)}"
        return re.compile(pattern).fullmatch


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit as it holds for one tensor; ``text`` is how a verdict names it."""

    quantity: Quantity
    bound: float
    rule: LimitRule
    text: str

    def over(self, value: float) -> bool:
        """True past the limit; NaN is not."""
        return value < self.bound if self.quantity.minimum else value > self.bound


@dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """What holds for one kind of tensor: (quantity, fail limit, warn limit) in the order
    of :data:`QUANTITIES`; ``label`` names the most specific rule that applied, ``within``
    is what a verdict says where nothing is over; ``own`` are the quantities a file limits here."""

    checks: tuple[tuple[Quantity, Limit | None, Limit | None], ...]
    supporting: tuple[Limit, ...]
    label: str
    built_in: bool
    own: frozenset[str]
    within: str


def in_order(rules: Iterable[LimitRule]) -> tuple[LimitRule, ...]:
    """The rules, the most specific last; equals in the order given."""
    return tuple(sorted(rules, key=lambda rule: rule.specificity))


def applying(
    rules: Iterable[LimitRule], dtype: DType | None, coarser: DType | None, op_type: str, name: str
) -> list[LimitRule]:
    """The rules for a tensor. A built-in rule for an element type goes by the *coarser* of
    both sides' types, one of a file by the device's."""
    fitting = []
    for rule in rules:
        if rule.scope is LimitScope.DTYPE:
            wanted = coarser if rule.built_in else dtype
            applies = wanted is not None and rule.pattern == wanted.value
        elif rule.scope is LimitScope.TYPE:
            applies = rule.matches(op_type)
        elif rule.scope is LimitScope.NAME:
            applies = rule.matches(name)
        else:
            applies = True
        if applies:
            fitting.append(rule)
    return fitting


def combined(rules: Iterable[LimitRule]) -> EffectiveLimits:
    """The limits that hold where these rules apply, in the order given."""
    fail: dict[str, Limit | None] = {}
    warn: dict[str, Limit | None] = {}
    supporting: dict[str, Limit | None] = {}
    label, built_in, own = "default", False, set[str]()
    for rule in rules:
        label = rule.label
        if rule.built_in:
            built_in = True
        else:
            own |= {*rule.fail, *rule.warn}
        for values, limits, note in (
            (rule.fail, fail, ""),
            (rule.warn, warn, " (warn)"),
            (rule.supporting, supporting, ""),
        ):
            if not rule.built_in and WORST_ERROR not in values:
                limits[WORST_ERROR] = _following(limits, values, note)
            for name, bound in values.items():
                limits[name] = None if bound is None else _limit(name, bound, rule, note)
        for name in rule.fail:  # a limit of its own, or none at all
            if name not in rule.supporting:
                supporting[name] = None
    checks = tuple(
        (quantity, fail.get(name), warn.get(name))
        for name, quantity in QUANTITIES.items()
        if fail.get(name) is not None or warn.get(name) is not None
    )
    kept_supporting = tuple(limit for limit in supporting.values() if limit is not None)
    return EffectiveLimits(
        checks, kept_supporting, label, built_in, frozenset(own), f"{label}: within every limit"
    )


def _following(
    limits: Mapping[str, Limit | None], values: Mapping[str, float | None], note: str
) -> Limit | None:
    """The built-in limit of the worst error under a file's rule that does not name it. It grows
    with the distance's limit, and is dropped where that limit, or the largest error's, is off or
    set by the user: who allows tensors to be half off means their elements, too."""
    worst, distance = limits.get(WORST_ERROR), limits.get(_DISTANCE)
    if worst is None or not worst.rule.built_in:
        return worst
    if _LARGEST in values or (_DISTANCE in values and values[_DISTANCE] is None):
        return None
    wanted = values.get(_DISTANCE)
    if wanted is None or distance is None or wanted <= distance.bound:
        return worst
    return _limit(WORST_ERROR, worst.bound * wanted / distance.bound, worst.rule, note)


def _limit(name: str, bound: float, rule: LimitRule, note: str) -> Limit:
    quantity = QUANTITIES[name]
    sign = "<" if quantity.minimum else ">"
    return Limit(quantity, bound, rule, f"{rule.label}: {name} {sign} {bound:g}{note}")
