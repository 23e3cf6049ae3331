"""The level of a compared tensor by the limits, and the limit that decided.

The limits are built in (:mod:`divergraph.metrics.limits.defaults`) and a file may change them for
all tensors, or by element type, op type or name; the most specific rule wins. A value at its limit
passes. docs/how-to/thresholds.md says what the defaults catch, and why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from divergraph.metrics.limits.defaults import BUILT_IN, INDICES, are_indices, coarser
from divergraph.metrics.limits.exceptions import TINY, Fixed, excused, fixed, of_nonfinite
from divergraph.metrics.limits.rules import (
    EffectiveLimits,
    Limit,
    LimitRule,
    LimitScope,
    applying,
    combined,
    in_order,
)
from graphstore.model import DType, Figures, Level, Metric, MetricSet

ROUNDING = 1e-6
"""Relative Euclidean distance up to which the sides differ by float32 rounding only, which is then
all that the divergence compares."""

NO_LIMIT = sys.float_info.max
"""What :meth:`Thresholds.as_mapping` gives for a limit that is switched off."""


@dataclass(frozen=True, slots=True)
class ThresholdJudgement:
    """The worst level, the metrics past their fail limit and those past only the warn one.

    ``limit`` names the rule that decided: ``default: relative_euclidean_distance > 0.05``. A limit
    on a quantity that is not one of the ten metrics appears in ``failed`` as the metric nearest to
    it.
    """

    level: Level
    failed: tuple[Metric, ...] = ()
    warned: tuple[Metric, ...] = ()
    limit: str = ""


@dataclass(frozen=True)
class Thresholds:
    """Rules, the most specific last. Quantities without a limit are not judged."""

    rules: tuple[LimitRule, ...] = BUILT_IN
    _known: dict[tuple[object, ...], EffectiveLimits] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def only(cls, fail: Mapping[str, float], warn: Mapping[str, float]) -> Thresholds:
        """These limits for all tensors, without the built-in ones."""
        return cls((LimitRule("global", dict(fail), dict(warn)),))

    def judge(
        self,
        metrics: MetricSet,
        figures: Figures | None = None,
        *,
        device: DType | None = None,
        golden: DType | None = None,
        op_type: str = "",
        name: str = "",
    ) -> ThresholdJudgement:
        """The level of one tensor, and the metrics over their limits in report order.

        *device* and *golden* are the stored element types, *op_type* and *name* those of the
        device's op. Metrics that are undefined (for bool tensors) are ignored, but some things
        never pass although no limit catches them: NaN or infinities that are not the same on both
        sides, a golden tensor of zeros where the device has values over 1e-6, and booleans of which
        more differ than the cosine's limit leaves. The same NaN or infinities on both sides are
        ignored if *figures* tell how the other elements are, else they are worth a warning.
        """
        limits = self._limits(device, golden, op_type, name, by_name=figures is not None)
        if metrics.device_nonfinite or metrics.golden_nonfinite:
            by_nonfinite = of_nonfinite(metrics, figures, limits)
            if isinstance(by_nonfinite, Fixed):
                return _judgement(by_nonfinite, (), (), metrics, limits)
            metrics = by_nonfinite
        over: list[Limit] = []
        past: list[Limit] = []
        for quantity, fail, warn in limits.checks:
            value = quantity.get(metrics, figures)
            if fail is not None and fail.over(value):
                over.append(fail)
            elif warn is not None and warn.over(value):
                past.append(warn)
        special = None
        if metrics.notes or metrics.different or metrics.elements <= TINY:
            special = fixed(metrics, figures, limits, device, golden)
        elif not over and not past:
            return ThresholdJudgement(Level.PASS, limit=limits.within)
        excuse = ""
        if over or past:
            over, past, excuse = excused(over, past, metrics, device, coarser(device, golden))
        if special is None and not over and not past:
            return ThresholdJudgement(Level.PASS, limit=excuse or limits.within)
        return _judgement(special, over, past, metrics, limits)

    def as_mapping(self) -> dict[str, float]:
        """Limits to store with a run: ``cosine_similarity`` fails, ``warn.…`` warns,
        ``types.Conv2D.…`` and the like hold for some tensors. :data:`NO_LIMIT` stands for
        one that is switched off there."""
        stored: dict[str, float] = {}
        general = combined(rule for rule in self.rules if rule.scope is LimitScope.ALL)
        for quantity, fail, warn in general.checks:
            for prefix, limit in (("", fail), ("warn.", warn)):
                if limit is not None:
                    stored[f"{prefix}{quantity.name}"] = limit.bound
        for rule in self.rules:
            if rule.scope is LimitScope.ALL or rule.built_in:
                continue
            for prefix, bounds in (("", rule.fail), ("warn.", rule.warn)):
                for name, bound in bounds.items():
                    key = f"{prefix}{rule.label}.{name}"
                    stored[key] = NO_LIMIT if bound is None else bound
        return stored

    def _limits(
        self, device: DType | None, golden: DType | None, op_type: str, name: str, *, by_name: bool
    ) -> EffectiveLimits:
        indices = by_name and self._built_in and are_indices(device, golden, op_type)
        named = tuple([place for place, fits in self._name_patterns if fits(name)])
        key = (device, golden, op_type if self._by_type else "", named, indices)
        limits = self._known.get(key)
        if limits is None:
            rules = applying(self.rules, device, coarser(device, golden), op_type, name)
            if indices:
                rules.insert(sum(rule.built_in for rule in rules), INDICES)
            limits = self._known[key] = combined(rules)
        return limits

    @cached_property
    def _by_type(self) -> bool:
        return any(rule.scope is LimitScope.TYPE for rule in self.rules)

    @cached_property
    def _name_patterns(self) -> tuple[tuple[int, Callable[[str], object]], ...]:
        """The index of each rule for names, with the function that says whether a name fits."""
        return tuple(
            (place, rule.matcher())
            for place, rule in enumerate(self.rules)
            if rule.scope is LimitScope.NAME
        )

    @cached_property
    def _built_in(self) -> bool:
        return any(rule.built_in for rule in self.rules)


def load_thresholds(path: Path | None) -> Thresholds:
    """The built-in limits, changed by the TOML file at *path* if one is given.

    ``[fail]`` and ``[warn]`` hold limits by name; names outside a table mean ``[fail]``.
    ``[dtypes.float16]``, ``[types.Conv2D]`` and ``[names."*/bias"]`` hold limits of some
    tensors in the same way. ``false`` switches one off; what the file does not name stays.

    Raises:
        ConfigError: unreadable file, unknown name, or a value that is no limit.
    """
    if path is None:
        return Thresholds()
    from divergraph.metrics.limits.file import read_rules  # it loads the TOML reader

    return Thresholds((*BUILT_IN, *in_order(read_rules(path))))


def _judgement(
    special: Fixed | None,
    over: Sequence[Limit],
    past: Sequence[Limit],
    metrics: MetricSet,
    limits: EffectiveLimits,
) -> ThresholdJudgement:
    failed = {limit.quantity.shown for limit in over}
    warned = {limit.quantity.shown for limit in past}
    level = Level.FAIL if over else Level.WARN if past else Level.PASS
    deciding = max(over or past, key=attrgetter("rule.specificity"), default=None)
    text = "" if deciding is None else deciding.text
    if special is not None:
        (failed if special.level is Level.FAIL else warned).update(special.shown)
        if level is Level.PASS or (special.level is Level.FAIL and level is Level.WARN):
            level, text = special.level, special.text
    if level is Level.FAIL:
        failed |= {limit.quantity.shown for limit in limits.supporting if _supports(limit, metrics)}
    return ThresholdJudgement(level, _ordered(failed), _ordered(warned - failed), text)


def _supports(limit: Limit, metrics: MetricSet) -> bool:
    if (
        limit.quantity.shown is Metric.KULLBACK_LEIBLER_DIVERGENCE
        and metrics.relative_euclidean_distance <= ROUNDING
    ):
        return False
    return limit.over(limit.quantity.get(metrics, None))


def _ordered(metrics: set[Metric]) -> tuple[Metric, ...]:
    return tuple(metric for metric in Metric if metric in metrics)
