"""Searches for causes take op runs of a budget, so a group of hundreds of ops costs no hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dumped_sides import compared, guilty, run_all, written
from onnx import helper

from divergraph.rootcause import explaining
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import RunBudget, RunsSpentError
from divergraph.rootcause.groups.group_reruns import GroupReruns

node = helper.make_node
LAYERS, WIDE = 40, 24


@pytest.fixture
def chain(tmp_path: Path):
    """Forty layers of which a device with a fault in one of the first only dumps the last."""
    rng = np.random.default_rng(5)
    nodes, last, weights = [], "x", {}
    for k in range(LAYERS):
        weights[f"w{k}"] = rng.normal(0, 1 / np.sqrt(WIDE), (WIDE, WIDE)).astype(np.float32)
        nodes += [node("MatMul", [last, f"w{k}"], [f"m{k}"]), node("Tanh", [f"m{k}"], [f"t{k}"])]
        last = f"t{k}"
    feeds = {"x": rng.normal(0, 1, (30, WIDE)).astype(np.float32)}
    model = written(tmp_path / "chain.onnx", nodes, feeds, weights, [last])
    golden = run_all(model, feeds)
    rest = written(
        tmp_path / "rest.onnx", nodes[-20:], {f"t{LAYERS - 11}": golden["t0"]}, weights, [last]
    )
    wrong = golden[f"t{LAYERS - 11}"] * rng.choice([1.0, 0.5], (30, WIDE)).astype(np.float32)
    device = run_all(rest, {f"t{LAYERS - 11}": wrong})
    return model, golden, {"x": feeds["x"], last: device[last].astype(np.float16)}


def test_a_rule_has_a_budget() -> None:
    budget = RunBudget(left=100, most=60)
    budget.begin()
    budget.spend(50)
    with pytest.raises(RunsSpentError):
        budget.spend(20)
    budget.begin()
    budget.spend(20)
    budget.begin()
    with pytest.raises(RunsSpentError):
        budget.spend(40)
    assert budget.left == 30


def test_causes_of_a_large_group_keep_to_it(chain, monkeypatch) -> None:
    spent = []
    outputs = GroupReruns._outputs

    def counted(self, judged, changed, *more):
        spent.append(len(changed) * len(judged.group.ops))
        return outputs(self, judged, changed, *more)

    monkeypatch.setattr(GroupReruns, "_outputs", counted)
    monkeypatch.setattr(explaining, "_LEAST_RUNS", 2_000)
    monkeypatch.setattr(explaining, "_LEAST_RUNS_OF_RULE", 1_000)
    monkeypatch.setattr(explaining, "_RUNS", 1)
    data = compared(*chain)
    assert guilty(data) == {f"t{LAYERS - 1}"}
    assert spent
    assert sum(spent) <= 2_000 + 4 * 2 * LAYERS  # what reruns start from is no trial


def test_a_rule_that_spent_its_runs_leaves_the_word_to_the_next(chain, monkeypatch) -> None:
    from divergraph.rootcause.causes import rules

    def greedy(view):
        view.case.budget.spend(10**9)

    known = rules.cause_rules()
    first = CauseRule(greedy, CauseStage.NO_NUMBER, 0)
    monkeypatch.setattr(rules, "cause_rules", lambda: (first, *known))
    data = compared(*chain)
    assert any(each.kind.value == "cause" for each in data.findings)
