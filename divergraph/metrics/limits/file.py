"""A thresholds file: TOML with limits for all tensors, and for some of them.

``[fail]``, ``[warn]`` and names outside a table are for all; ``[dtypes.X]``, ``[types.X]``
and ``[names.X]``, each with a ``fail`` and a ``warn`` table or names of their own (which
fail), for element types, op types and names.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divergraph.files.os_errors import os_errors_told
from divergraph.files.toml_lines import line_of
from divergraph.metrics.limits.quantities import QUANTITIES, Quantity
from divergraph.metrics.limits.rules import TABLES, LimitRule, LimitScope
from graphstore.errors import ConfigError
from graphstore.model import DType, Metric

_LEVELS = ("fail", "warn")
_TABLES_HINT = "tables are [fail], [warn], [dtypes.*], [types.*] and [names.*]"
_Bounds = dict[str, float | None]


def read_rules(path: Path) -> tuple[LimitRule, ...]:
    """The rules in the file at *path*, in its order.

    Raises:
        ConfigError: unreadable file, unknown name, or a value that is no limit.
    """
    try:
        with os_errors_told("the thresholds file cannot be read", path, kind=ConfigError):
            text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"not a TOML file: {error}",
            where=str(path),
            hint="lines like: cosine_similarity = 0.99",
        ) from error
    return tuple(_Reader(path, text).rules(content))


@dataclass(frozen=True)
class _Reader:
    """The file being read, to say in which line a wrong key is."""

    path: Path
    text: str

    def rules(self, content: Mapping[str, Any]) -> Iterator[LimitRule]:
        general = {key: value for key, value in content.items() if key not in TABLES}
        fail, warn = self._limits(general, ())
        if fail or warn:
            yield LimitRule("global", fail, warn)
        for table, scope in TABLES.items():
            patterns = content.get(table, {})
            if not isinstance(patterns, dict):
                raise self._error(table, f"{table} is not a table of tables", _TABLES_HINT)
            for pattern, values in patterns.items():
                yield self._rule(table, scope, pattern, values)

    def _rule(self, table: str, scope: LimitScope, pattern: str, values: Any) -> LimitRule:
        if not isinstance(values, dict):
            raise self._error(
                pattern,
                f"{table}.{pattern} is not a table of limits",
                f"[{table}.{pattern}]",
                (table,),
            )
        if scope is LimitScope.DTYPE and pattern not in set(DType):
            matches = difflib.get_close_matches(pattern, [str(dtype) for dtype in DType], 1, 0.5)
            hint = f"did you mean {matches[0]}?" if matches else "a word like float16 or bfloat16"
            raise self._error("", f"unknown element type {pattern!r}", hint, (table, pattern))
        fail, warn = self._limits(values, (table, pattern))
        return LimitRule(f"{table}.{pattern}", fail, warn, scope, pattern)

    def _limits(self, values: Mapping[str, Any], table: tuple[str, ...]) -> tuple[_Bounds, _Bounds]:
        limits: dict[str, _Bounds] = {"fail": {}, "warn": {}}
        for key, value in values.items():
            if key in _LEVELS and isinstance(value, dict):
                for name, bound in value.items():
                    self._set(limits[key], name, bound, (*table, key))
            elif isinstance(value, dict) or key in _LEVELS:
                raise self._error(key, f"{key} is not a table of limits", _TABLES_HINT, table)
            else:
                self._set(limits["fail"], key, value, table)
        return limits["fail"], limits["warn"]

    def _set(self, limits: _Bounds, name: str, value: Any, table: tuple[str, ...]) -> None:
        quantity = self._quantity(name, table)
        limits[name] = None if value is False else self._bound(quantity, value, table)

    def _quantity(self, name: str, table: tuple[str, ...]) -> Quantity:
        if name == Metric.STANDARD_DEVIATION:
            raise self._error(
                name,
                "standard_deviation is four numbers and no error, so it can have no limit",
                "limit root_mean_square_error instead",
                table,
            )
        if name not in QUANTITIES:
            matches = difflib.get_close_matches(name, list(QUANTITIES), 1, 0.5)
            hint = f"did you mean {matches[0]}?" if matches else f"one of {', '.join(QUANTITIES)}"
            raise self._error(name, f"unknown metric {name!r}", hint, table)
        return QUANTITIES[name]

    def _bound(self, quantity: Quantity, value: Any, table: tuple[str, ...]) -> float:
        name, usual = quantity.name, "a number, or false to switch it off"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(name, f"{name} = {value!r} is not a limit", usual, table)
        if not math.isfinite(value):
            raise self._error(name, f"{name} = {value} limits nothing", usual, table)
        if not quantity.low <= value <= quantity.high:
            raise self._error(name, *_out_of_range(quantity, value), table)
        return float(value)

    def _error(self, key: str, what: str, hint: str, table: tuple[str, ...] = ()) -> ConfigError:
        line = line_of(self.text, key, table)
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return ConfigError(what, where=where, hint=hint)


def _out_of_range(quantity: Quantity, value: float) -> tuple[str, str]:
    name, side = quantity.name, "a minimum" if quantity.minimum else "a maximum"
    if name == Metric.COSINE_SIMILARITY:
        return f"{name} = {value} is not a cosine", "a minimum from -1 to 1"
    if quantity.high == 1.0:
        return f"{name} = {value} is not a share", f"{side} from 0 to 1"
    return f"{name} = {value} can never hold", f"{side}, 0 or more"
