"""Indices, classes and booleans: each that differs is a tie, or wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dumped_sides import compared, guilty, run_all, split_of, written
from onnx import TensorProto, helper

from divergraph.rootcause.devices.precision import precision_named
from graphstore.model import Guilt

node = helper.make_node
TOKENS, EXPERTS, WIDE = 37, 24, 32


class Router:
    """Scores of experts by token, the two best, the best, and which are over a threshold.

    The device rounds what it dumps to a type, and chooses by what it had before.
    """

    def __init__(self, folder: Path, kind: str = "fp16", moved: bool = False) -> None:
        rng = np.random.default_rng(3)
        nodes = [
            node("MatMul", ["x", "w"], ["logits"]),
            node("Sigmoid", ["logits"], ["scores"]),
            node("TopK", ["scores", "two"], ["values", "experts"]),
            node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            node("Greater", ["scores", "half"], ["over"]),
            node("Mul", ["scores", "hundred"], ["parts"]),
            node("Cast", ["parts"], ["percent"], to=TensorProto.INT32),
            node("Gather", ["table", "best"], ["row"]),
        ]
        outputs = ["values", "over", "percent", "row"]
        if moved:
            nodes += [
                node("Transpose", ["experts"], ["turned"], perm=[1, 0]),
                node("Cast", ["turned"], ["kept"], to=TensorProto.INT32),
            ]
            outputs.append("kept")
        weights = {
            "w": rng.normal(0, 0.3, (WIDE, EXPERTS)).astype(np.float32),
            "two": np.array([2]),
            "half": np.float32(0.5),
            "hundred": np.float32(100),
            "table": rng.normal(0, 1, (EXPERTS, 16)).astype(np.float32),
        }
        rounded = precision_named(kind).rounded
        feeds = {"x": rounded(rng.normal(0, 1, (TOKENS, WIDE)).astype(np.float32))}
        self.model = written(folder / "router.onnx", nodes, feeds, weights, outputs)
        self.golden = run_all(self.model, feeds)
        self.device = {
            name: rounded(value) if value.dtype == np.float32 else value.copy()
            for name, value in self.golden.items()
        }

    def compared(self, *hidden: str):
        device = {name: x for name, x in self.device.items() if name not in hidden}
        return compared(self.model, self.golden, device)

    def middling(self) -> np.ndarray:
        """By token an expert that is far from the best."""
        return np.argsort(self.golden["scores"], axis=1)[:, EXPERTS // 2]


@pytest.fixture
def router(tmp_path: Path) -> Router:
    return Router(tmp_path)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_what_was_chosen_before_rounding_is_a_tie_in_the_dump(tmp_path: Path, kind: str) -> None:
    router = Router(tmp_path, kind)
    scores = router.device["scores"]
    assert kind == "fp16" or (scores.argmax(1) != router.device["best"]).any()
    assert not guilty(router.compared())


def test_wrong_experts_are_counted(router: Router) -> None:
    router.device["experts"][5:20, 1] = router.middling()[5:20]
    data = router.compared()
    assert guilty(data) == {"values"}
    assert split_of(data, "values", 1).guilt is Guilt.GUILTY
    said = {each.sentence for each in data.findings if each.port == 1}
    assert any("15 of 74 indices are wrong, none is a tie" in each for each in said)


def test_one_wrong_class_is_enough(router: Router) -> None:
    router.device["best"][7] = router.middling()[7]
    assert guilty(router.compared("row")) == {"best"}


def test_the_same_expert_twice_is_wrong(router: Router) -> None:
    router.device["experts"][3, 1] = router.device["experts"][3, 0]
    assert guilty(router.compared()) == {"values"}


def test_an_expert_there_is_not_is_wrong(router: Router) -> None:
    router.device["experts"][3, 1] = EXPERTS
    assert guilty(router.compared()) == {"values"}


def test_scores_need_not_be_dumped(router: Router) -> None:
    assert not guilty(router.compared("logits", "scores"))
    router.device["best"][7] = np.argsort(router.golden["scores"][7])[3]
    assert "best" in guilty(router.compared("logits", "scores"))


def test_indices_are_followed_through_what_moves_them(tmp_path: Path) -> None:
    router = Router(tmp_path, "bf16", moved=True)
    assert not guilty(router.compared("experts", "turned"))
    router.device["kept"][1, 4] = router.middling()[4]
    assert guilty(router.compared("experts", "turned")) == {"kept"}


def test_booleans_hang_on_what_is_next_to_the_threshold(router: Router) -> None:
    scores, over = router.device["scores"], router.device["over"]
    nearest = np.unravel_index(np.abs(scores - 0.5).argmin(), scores.shape)
    scores[nearest] = 0.5
    over[nearest] = True
    assert "over" not in guilty(router.compared())
    over[nearest] = False
    over[scores > 0.8] = False
    assert "over" in guilty(router.compared())


def test_a_fraction_is_cut_off_on_either_side_of_a_whole_number_only(router: Router) -> None:
    parts, percent = router.device["parts"], router.device["percent"]
    parts[0, 0], percent[0, 0] = 50.0, 49
    assert "percent" not in guilty(router.compared())
    parts[0, 0], percent[0, 0] = 50.5, 51
    assert "percent" in guilty(router.compared())


def test_equal_whole_numbers_are_ties(tmp_path: Path) -> None:
    steps = np.array([[3, 7, 7, 1], [5, 2, 5, 4]], np.int32)
    model = written(
        tmp_path / "steps.onnx",
        [node("ArgMax", ["x"], ["best"], axis=1, keepdims=0)],
        {"x": steps},
        {},
        ["best"],
    )
    golden = run_all(model, {"x": steps})
    for best, wrong in (([2, 2], set()), ([2, 3], {"best"})):
        device = {"x": steps, "best": np.array(best)}
        assert guilty(compared(model, golden, device)) == wrong
