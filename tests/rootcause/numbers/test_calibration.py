"""Every number that decides a verdict says where it is from, and has a case beside this file."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

from divergraph.rootcause import calibration
from graphstore.model import analysis

NUMBERS = sorted(name for name in vars(calibration) if name.isupper())


def test_each_number_says_its_reason_and_what_it_was_measured_on() -> None:
    body = ast.parse(Path(calibration.__file__).read_text("utf-8")).body
    told = {}
    for statement, after in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr):
            told[statement.targets[0].id] = ast.literal_eval(after.value)
    assert sorted(told) == NUMBERS
    known = ("easured", "Source:")
    assert [name for name, said in told.items() if not any(each in said for each in known)] == []


def test_each_number_has_a_case() -> None:
    written = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in NUMBERS if f'"{name}": ' not in written] == []


def test_stored_runs_without_limits_have_the_same() -> None:
    assert (analysis.SUSPECT, analysis.GUILTY) == (calibration.SUSPECT, calibration.GUILTY)
