"""Tests of numbers that decide verdicts: ten times more or less of one, and a case goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from divergraph.rootcause import calibration


def both_tests(cases: Mapping[str, Callable[[], None]]) -> tuple[Callable[..., None], ...]:
    """The two tests of the numbers that *cases* are named after."""
    by_name = pytest.mark.parametrize("name", sorted(cases))
    sizes = ["ten times larger", "ten times smaller"]

    @by_name
    def decides(name: str) -> None:
        cases[name]()

    @by_name
    @pytest.mark.parametrize("smaller", [False, True], ids=sizes)
    def noticed(name: str, smaller: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        value = getattr(calibration, name)
        wrong = value / 10 if smaller else value * 10
        monkeypatch.setattr(calibration, name, type(value)(wrong))
        with pytest.raises(Exception):  # noqa: B017, PT011 - a wrong verdict, or none at all
            cases[name]()

    return decides, noticed
