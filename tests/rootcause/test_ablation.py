"""The yardstick can leave out each step of the analysis that it names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "truth"
if not BENCHMARK.is_dir():
    pytest.skip("benchmarks are not part of this copy", allow_module_level=True)
if str(BENCHMARK) not in sys.path:
    sys.path.append(str(BENCHMARK))

import entries  # noqa: E402
import judging  # noqa: E402


@pytest.mark.parametrize("place", [place for place, _ in entries.STEPS.values()])
def test_each_step_is_where_the_analysis_looks_it_up(place: str) -> None:
    owner, name = entries.owner_of(place)
    assert callable(getattr(owner, name))


def test_entries_are_found_where_the_analysis_finds_them() -> None:
    modules = [
        importlib.import_module(f"divergraph.rootcause.{name}") for name in entries.REGISTRIES
    ]
    before = [module.discovered for module in modules]
    steps = {place: getattr(*entries.owner_of(place)) for place, _ in entries.STEPS.values()}
    try:
        known = entries.Entries()
        rules = importlib.import_module("divergraph.rootcause.causes.contract").cause_rules
        rules.cache_clear()
        every = [rule.name for rule in rules()]
        with known.without(["cause:changed_constant"]):
            left = [rule.name for rule in rules()]
    finally:
        for module, function in zip(modules, before, strict=True):
            module.discovered = function
        for place, function in steps.items():
            setattr(*entries.owner_of(place), function)
        rules.cache_clear()

    assert set(every) - set(left) == {"changed_constant"}


def test_what_decides_is_found_by_halves() -> None:
    asked: list[int] = []

    def without(some: list[str]) -> str:
        asked.append(len(some))
        return "verdict clean -> diverged" if "c" in some else ""

    assert dict(judging.deciding(list("abcdefgh"), without)) == {"c": "verdict clean -> diverged"}
    assert asked[0] == 8
    assert len(asked) < 8
