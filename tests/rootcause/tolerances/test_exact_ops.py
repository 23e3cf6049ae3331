"""Elements outside of the bound of an exact op are counted, however small the tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dumped_sides import compared, guilty, run_all, written
from onnx import helper

from divergraph.rootcause.devices.precision import precision_named
from divergraph.rootcause.tolerances.exact_ops import bound_of, outside
from graphstore.model import Op

node = helper.make_node
TOKENS, WIDE = 20, 64


def test_a_bound_is_a_last_place_of_each_operand_and_of_the_result() -> None:
    one, other = np.array([1.5, 1.0]), np.array([3.0, -1.0])
    bound = bound_of(Op("a", "a", "Add"), [one, other], 2.0**-8, 0.0)
    assert bound is not None
    assert bound[0] == 2.0**-7 + 2.0**-6 + 2.0**-5
    assert bound[1] == 2 * 2.0**-7 + 2.0**-8  # what cancels leaves the errors of its operands


def test_many_outside_by_little_or_one_by_much_are_no_chance() -> None:
    nothing, alike = np.zeros(20), np.ones(20)
    assert outside(1.2 * alike, nothing, alike, 200) == 1.0
    assert outside(0.9 * alike, nothing, alike, 200) == 0.0
    assert outside(np.array([30.0]), np.zeros(1), np.ones(1), 200) > 20
    few = np.zeros(2_000_000)
    few[:20] = 1.5
    assert outside(few, np.zeros(few.size), np.ones(few.size), 200) == 0.0


class Norm:
    """An RMS norm on a device that rounds all it dumps, but hands on what it had before."""

    def __init__(self, folder: Path, kind: str, size: float) -> None:
        nodes = [
            node("Mul", ["x", "x"], ["squares"]),
            node("ReduceMean", ["squares"], ["mean"], axes=[-1]),
            node("Add", ["mean", "epsilon"], ["steady"]),
            node("Sqrt", ["steady"], ["root"]),
            node("Div", ["x", "root"], ["scaled"]),
            node("Mul", ["scaled", "weight"], ["y"]),
        ]
        rng = np.random.default_rng(8)
        self.rounded = precision_named(kind).rounded
        self.epsilon = np.float32(1e-5)
        self.weights = {
            "epsilon": self.epsilon,
            "weight": rng.normal(1, 0.2, WIDE).astype(np.float32),
        }
        x = rng.normal(0, size, (1, TOKENS, WIDE)) * rng.uniform(0.5, 2, (1, TOKENS, 1))
        self.feeds = {"x": self.rounded(x.astype(np.float32))}
        self.folder, self.nodes = folder, nodes
        self.model = written(folder / "norm.onnx", nodes, self.feeds, self.weights, ["y"])

    def compared(self, *hidden: str, **changed: float):
        weights = {n: x + np.float32(changed.get(n, 0.0)) for n, x in self.weights.items()}
        other = written(self.folder / "device.onnx", self.nodes, self.feeds, weights, ["y"])
        made = run_all(other, self.feeds)
        device = {n: self.rounded(x) for n, x in made.items() if n not in hidden}
        return compared(self.model, run_all(self.model, self.feeds), device)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("size", [0.5, 1.0, 3.0])
def test_an_epsilon_too_large_by_a_few_last_places_is_guilty(
    tmp_path: Path, kind: str, size: float
) -> None:
    norm = Norm(tmp_path, kind, size)
    assert not guilty(norm.compared())
    unit = 2.0**-8 if kind == "bf16" else 2.0**-11
    wrong = norm.compared(epsilon=16 * unit * size**2)
    assert guilty(wrong) == {"steady"}


def test_fewer_dumps_never_acquit_less_than_more(tmp_path: Path) -> None:
    """With all dumped the op is guilty; with fewer it, or the op whose group it is in, may be."""
    norm, inner = Norm(tmp_path, "bf16", 1.0), ("squares", "mean", "steady", "root", "scaled")
    rng = np.random.default_rng(2)
    assert guilty(norm.compared(epsilon=0.06)) == {"steady"}
    for _ in range(6):
        hidden = [name for name in inner if rng.random() < 0.5]
        first = next(n for n in ("steady", "root", "scaled", "y") if n not in hidden)
        assert guilty(norm.compared(*hidden, epsilon=0.06)) <= {first}
