"""Limits of the metrics and what they say of a compared tensor.

The fail limits are those the Ascend documentation recommends for a network comparison
(cosine over 0.99, relative Euclidean distance under 0.05, divergence under 0.005, RMSE
and mean relative error under 1); the warn limits are ours. A value at its limit passes.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from divergraph.comparison import notes
from graphstore.errors import ConfigError
from graphstore.model import Level, Metric, MetricSet

DEFAULT_FAIL: Mapping[Metric, float] = MappingProxyType(
    {
        Metric.COSINE_SIMILARITY: 0.99,
        Metric.RELATIVE_EUCLIDEAN_DISTANCE: 0.05,
        Metric.KULLBACK_LEIBLER_DIVERGENCE: 0.005,
        Metric.ROOT_MEAN_SQUARE_ERROR: 1.0,
        Metric.MEAN_RELATIVE_ERROR: 1.0,
    }
)

DEFAULT_WARN: Mapping[Metric, float] = MappingProxyType(
    {
        Metric.COSINE_SIMILARITY: 0.999,
        Metric.RELATIVE_EUCLIDEAN_DISTANCE: 0.01,
        Metric.KULLBACK_LEIBLER_DIVERGENCE: 0.001,
        Metric.ROOT_MEAN_SQUARE_ERROR: 0.5,
        Metric.MEAN_RELATIVE_ERROR: 0.5,
    }
)

ROUNDING = 1e-6
"""Relative Euclidean distance up to which the sides are equal but for float32 rounding.
The divergence scales each side to its own range first, so on a tensor that is constant but
for rounding it compares nothing but that rounding: there it is not judged."""

NEGLIGIBLE = 1e-6
"""Largest absolute error let pass where golden is all zero, so no ratio is defined."""

_TABLES = ("fail", "warn")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The worst level, the metrics past their fail limit and those past only the warn one."""

    level: Level
    failed: tuple[Metric, ...] = ()
    warned: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class Thresholds:
    """A limit for each judged metric: a minimum for the cosine, a maximum for the others.

    Metrics without a limit are not judged. ``standard_deviation`` cannot have one.
    """

    fail: Mapping[Metric, float] = field(default_factory=lambda: DEFAULT_FAIL)
    warn: Mapping[Metric, float] = field(default_factory=lambda: DEFAULT_WARN)

    def judge(self, metrics: MetricSet) -> Judgement:
        """What the limits say of one tensor; metrics in report order.

        Values a metric does not have by definition (bool tensors) are passed over, but
        three things never pass although no limit catches them: NaN or infinities that
        are not the same on both sides, a golden tensor of zeros where the device has
        values over :data:`NEGLIGIBLE`, and booleans of which more differ than the
        cosine's limit leaves. The same NaN or infinities on both sides hide the rest of
        the tensor from the metrics, which is worth a warning.
        """
        failed = tuple(m for m in Metric if _past(m, metrics, self.fail))
        warned = tuple(m for m in Metric if m not in failed and _past(m, metrics, self.warn))
        if _differs_in_nonfinite(metrics):
            failed = _joined(failed, self._undefined(metrics) or (Metric.MAX_ABSOLUTE_ERROR,))
        elif metrics.device_nonfinite:
            warned = _joined(warned, self._undefined(metrics) or (Metric.MAX_ABSOLUTE_ERROR,))
        if _golden_is_zero(metrics):
            cosine_is_by_definition = not math.isnan(metrics.cosine_similarity)
            blamed = (
                Metric.RELATIVE_EUCLIDEAN_DISTANCE
                if cosine_is_by_definition
                else Metric.COSINE_SIMILARITY
            )
            failed = _joined(failed, (blamed,))
        if not failed and self._booleans_differ(metrics):
            failed = _joined(failed, (Metric.COSINE_SIMILARITY,))
        warned = tuple(m for m in warned if m not in failed)
        level = Level.FAIL if failed else Level.WARN if warned else Level.PASS
        return Judgement(level, failed, warned)

    def as_mapping(self) -> dict[str, float]:
        """Limits to store with a run: ``cosine_similarity`` fails, ``warn.…`` warns."""
        stored = {metric.value: self.fail[metric] for metric in Metric if metric in self.fail}
        for metric in Metric:
            if metric in self.warn:
                stored[f"warn.{metric.value}"] = self.warn[metric]
        return stored

    def _booleans_differ(self, metrics: MetricSet) -> bool:
        limit = self.fail.get(Metric.COSINE_SIMILARITY)
        return limit is not None and metrics.different > (1.0 - limit) * metrics.elements

    def _undefined(self, metrics: MetricSet) -> tuple[Metric, ...]:
        """Metrics with a limit that have no finite value."""
        return tuple(
            metric
            for metric in Metric
            if metric in self.fail and not _is_finite(metrics.value(metric))
        )


def load_thresholds(path: Path | None) -> Thresholds:
    """The defaults, changed by the TOML file at *path* if one is given.

    ``[fail]`` and ``[warn]`` hold limits by metric name; names outside a table mean
    ``[fail]``. ``false`` switches a metric off; what the file does not name stays.

    Raises:
        ConfigError: unreadable file, unknown name, or a value that is no limit.
    """
    if path is None:
        return Thresholds()
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"the thresholds file cannot be read: {error.strerror}", where=str(path)
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"not a TOML file: {error}",
            where=str(path),
            hint="lines like: cosine_similarity = 0.99",
        ) from error
    limits = {"fail": dict(DEFAULT_FAIL), "warn": dict(DEFAULT_WARN)}
    source = _Source(path, text)
    for key, value in content.items():
        if key in _TABLES and isinstance(value, dict):
            for name, limit in value.items():
                source.set_limit(limits[key], name, limit, table=key)
        elif isinstance(value, dict) or key in _TABLES:
            raise source.error(key, f"{key} is no table of limits", "tables are [fail] and [warn]")
        else:
            source.set_limit(limits["fail"], key, value, table="")
    return Thresholds(MappingProxyType(limits["fail"]), MappingProxyType(limits["warn"]))


@dataclass(frozen=True)
class _Source:
    """The file being read, to say where a wrong key stands."""

    path: Path
    text: str

    def set_limit(self, limits: dict[Metric, float], name: str, value: Any, *, table: str) -> None:
        metric = self._metric(name, table)
        if value is False:
            limits.pop(metric, None)
            return
        limits[metric] = self._limit(metric, value, table)

    def _metric(self, name: str, table: str) -> Metric:
        if name == Metric.STANDARD_DEVIATION:
            raise self.error(
                name,
                "standard_deviation is four numbers and no error, so it can have no limit",
                "limit root_mean_square_error instead",
                table,
            )
        try:
            return Metric(name)
        except ValueError:
            near = difflib.get_close_matches(name, [str(metric) for metric in Metric], 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(Metric)}"
            raise self.error(name, f"unknown metric {name!r}", hint, table) from None

    def _limit(self, metric: Metric, value: Any, table: str) -> float:
        usual = "a number, or false to switch the metric off"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(metric, f"{metric} = {value!r} is no limit", usual, table)
        if not math.isfinite(value):
            raise self.error(metric, f"{metric} = {value} limits nothing", usual, table)
        if metric is Metric.COSINE_SIMILARITY and not -1.0 <= value <= 1.0:
            raise self.error(
                metric, f"{metric} = {value} is no cosine", "a minimum from -1 to 1", table
            )
        if metric is not Metric.COSINE_SIMILARITY and value < 0:
            raise self.error(
                metric, f"{metric} = {value} can never hold", "a maximum, 0 or more", table
            )
        return float(value)

    def error(self, key: str, what: str, hint: str, table: str = "") -> ConfigError:
        line = _line_of(self.text, key, table)
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return ConfigError(what, where=where, hint=hint)


def _line_of(text: str, key: str, table: str) -> int | None:
    """1-based line that sets *key* in *table*; None for a spelling not looked for."""
    current = ""
    name = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[]=.]""")
    for number, line in enumerate(text.splitlines(), 1):
        if current == table and name.match(line):
            return number
        header = re.match(r"\s*\[\s*([^]]*?)\s*\]", line)
        if header:
            current = header.group(1)
    return None


def _past(metric: Metric, metrics: MetricSet, limits: Mapping[Metric, float]) -> bool:
    limit = limits.get(metric)
    value = metrics.value(metric)
    if limit is None or isinstance(value, tuple):
        return False
    if (
        metric is Metric.KULLBACK_LEIBLER_DIVERGENCE
        # 0 by definition too where golden is zero, which is judged by the absolute error
        and metrics.relative_euclidean_distance <= ROUNDING
    ):
        return False
    return value < limit if metric is Metric.COSINE_SIMILARITY else value > limit


def _is_finite(value: float | tuple[float, ...]) -> bool:
    return all(map(math.isfinite, value if isinstance(value, tuple) else (value,)))


def _differs_in_nonfinite(metrics: MetricSet) -> bool:
    if metrics.device_nonfinite != metrics.golden_nonfinite:
        return True
    if not metrics.device_nonfinite:
        return False
    said = metrics.notes.get(Metric.MAX_ABSOLUTE_ERROR, "")
    return not said.startswith(notes.SAME_NONFINITE)


def _golden_is_zero(metrics: MetricSet) -> bool:
    """Golden holds zeros only and the device values that are not negligible."""
    if metrics.notes.get(Metric.RELATIVE_EUCLIDEAN_DISTANCE) != notes.GOLDEN_ZERO:
        return False
    return not metrics.max_absolute_error <= NEGLIGIBLE


def _joined(first: tuple[Metric, ...], more: tuple[Metric, ...]) -> tuple[Metric, ...]:
    return tuple(metric for metric in Metric if metric in first or metric in more)
