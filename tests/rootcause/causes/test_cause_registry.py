"""Causes are found one file each, and say no word that was not declared."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from divergraph.files import discovered as registry
from divergraph.rootcause.causes import contract
from divergraph.rootcause.causes.contract import (
    CauseRule,
    CauseStage,
    cause_rules,
    most_confidence,
    rules_of_a_part,
)
from divergraph.rootcause.causes.evidence import Cause, FaultEvidence
from divergraph.rootcause.causes.limits import GUESS, LIKELY, SURE
from divergraph.rootcause.causes.rules import explain
from graphstore.model import DType

FOLDER = Path(contract.__file__).parent
V = np.random.default_rng(2).standard_normal(400).astype(np.float32)


def test_each_rule_and_each_label_is_declared_once() -> None:
    names = Counter(each.name for each in cause_rules())
    labels = Counter(label for each in cause_rules() for label in each.labels)
    assert max(names.values()) == 1
    assert max(labels.values()) == 1
    assert set(most_confidence().values()) <= {SURE, LIKELY, GUESS}


def test_what_is_exact_is_tried_before_what_fits() -> None:
    order = [each.name for each in cause_rules()]
    assert order[0] == "nonfinite"
    for first, second in (
        ("all_zero", "saturation"),
        ("tail_not_written", "whole_line"),
        ("known_function", "free_curve"),
        ("told_otherwise", "affine"),
        ("reordered", "shuffled"),
        ("whole_line", "affine"),
        ("unrelated_values", "rounding"),
    ):
        assert order.index(first) < order.index(second)


def test_of_a_part_only_rules_of_values_are_asked() -> None:
    asked = [each for each in cause_rules() if each.of_a_part]
    assert len(asked) == len(rules_of_a_part()) == 13


def test_labels_that_code_says_are_declared() -> None:
    """The first argument of every Cause, trial and guess."""
    said = set()
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "")
            if named in ("Cause", "Trial"):
                first = node.args[0]
                said |= {first.value} if isinstance(first, ast.Constant) else set()
    assert len(said) > 20
    assert said <= most_confidence().keys()


@pytest.fixture
def installed(monkeypatch):
    """A rule as an installed package brings it, sure of itself before all others."""

    def sure(view):
        return Cause("gremlins", "gremlins were here", 0.9) if view.error else None

    rule = CauseRule(sure, CauseStage.MISSING, 1, {"gremlins": 0.6})

    class Found:
        name = value = "gremlins"

        def load(self):
            return (rule,)

    def entries(group):
        return [Found()] if group == contract.ENTRY_POINT_GROUP else []

    monkeypatch.setattr(registry, "entry_points", entries)
    cached = (contract.cause_rules, contract.most_confidence, contract.rules_of_a_part)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


def test_an_installed_cause_is_tried_in_its_place(installed) -> None:
    device = V * np.float32(1.5)
    finding = explain(FaultEvidence("op", 0, device, V, 1e-6, dtype=DType.FLOAT32))
    assert finding is not None
    assert (finding.label, finding.confidence) == ("gremlins", 0.9)


def test_without_it_the_built_in_rules_say_it() -> None:
    device = V * np.float32(1.5)
    finding = explain(FaultEvidence("op", 0, device, V, 1e-6, dtype=DType.FLOAT32))
    assert finding is not None
    assert finding.label == "gain"


def test_where_nothing_is_wrong_nothing_is_said() -> None:
    assert explain(FaultEvidence("op", 0, V, V, 1e-6, dtype=DType.FLOAT32)) is None
