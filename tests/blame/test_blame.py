"""Blame: shares add up, and the list of ops to keep is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from divergraph.blame.attribution import blame
from divergraph.blame.sample import Introduced, ModelSample

Array = np.ndarray[Any, Any]


class Chain:
    """y = 3 (tanh(x) + a) + b, with a and b of different weight at the end."""

    tensors = ("t", "a", "y")

    def __init__(self, x: Array) -> None:
        self._x = x

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The output, with what is added to ``t``, ``a`` and ``y``."""
        t = np.tanh(self._x) + additions.get("t", 0)
        a = 3 * t + additions.get("a", 0)
        return {"y": a + additions.get("y", 0)}


def introduced(tensor: str, error: Array) -> Introduced:
    return Introduced(f"op_{tensor}", 0, tensor, (tensor,), 0.1, 50.0, lambda: error)


@pytest.fixture
def chain() -> Chain:
    return Chain(np.random.default_rng(0).standard_normal(500))


@pytest.fixture
def errors() -> list[Introduced]:
    draw = np.random.default_rng(1)
    sizes = {"y": 0.01, "t": 0.05, "a": 0.02, "nowhere": 9.0}
    return [introduced(name, size * draw.standard_normal(500)) for name, size in sizes.items()]


def device(chain: Chain, errors: list[Introduced]) -> Mapping[str, Array]:
    return chain.run({each.tensor: each.values() for each in errors})


def test_shares_are_ordered_by_what_they_do_at_the_end(
    chain: Chain, errors: list[Introduced]
) -> None:
    found = blame([ModelSample(chain, errors, device(chain, errors))])
    assert [share.tensor for share in found.shares] == ["t", "a", "y"]
    assert sum(share.share for share in found.shares) == pytest.approx(1, abs=1e-9)
    assert found.unexplained == pytest.approx(0, abs=1e-9)
    assert found.shares[0].left < 0.2 * found.errors["y"]
    assert found.left_out == ("nowhere",)


def test_the_list_to_keep_is_proved_by_runs(chain: Chain, errors: list[Introduced]) -> None:
    found = blame([ModelSample(chain, errors, device(chain, errors))], keep=2)
    assert [kept.op for kept in found.keep] == ["op_t", "op_a"]
    exact = [each for each in errors if each.tensor == "y"]
    left = np.linalg.norm(device(chain, exact)["y"] - chain.run({})["y"])
    whole = np.linalg.norm(device(chain, errors)["y"] - chain.run({})["y"])
    assert found.keep[1].left == pytest.approx(left / whole)


def test_what_gains_nothing_is_not_kept(chain: Chain, errors: list[Introduced]) -> None:
    rounding = 0.4 * errors[1].values()
    large = replace(errors[1], handed_on=lambda: rounding)
    both = [large, introduced("a", np.full(500, 1e-7))]
    kept = blame([ModelSample(chain, both, device(chain, both))]).keep
    assert [(each.tensor, round(each.left, 2)) for each in kept] == [("t", 0.4)]


def test_a_device_that_the_imitation_misses_is_not_imitated(
    chain: Chain, errors: list[Introduced]
) -> None:
    class Reading(Chain):
        makers = ("a",)

        def run_quantised(
            self, additions: Mapping[str, Array], exact: Collection[str]
        ) -> Mapping[str, Array]:
            read = (
                {} if "a" in exact else {"t": np.rint(8 * np.tanh(self._x)) / 8 - np.tanh(self._x)}
            )
            return self.run({**additions, **read})

    known = [replace(each, reads=("a",)) for each in errors[:3] if each.tensor == "a"]
    found = blame([ModelSample(Reading(chain._x), known, device(chain, errors[:3]))])
    assert not found.imitated
    assert "its outputs would be off by" in found.not_imitated


def test_errors_that_do_not_fit_in_memory_are_said(chain: Chain, errors: list[Introduced]) -> None:
    found = blame([ModelSample(chain, errors, device(chain, errors), memory=2 * 500 * 8)])
    assert len(found.shares) == 2
    assert found.unexplained > 0.01
    assert len(found.left_out) == 2


def test_one_list_is_made_for_several_samples(chain: Chain, errors: list[Introduced]) -> None:
    # On one sample "t" errs, on the other "a" does.
    draw = np.random.default_rng(3)
    other = Chain(draw.standard_normal(500))
    others = [introduced("a", 0.1 * draw.standard_normal(500))]
    given = [(chain, errors[:2]), (other, others)]
    alone = [blame([ModelSample(model, erring, device(model, erring))]) for model, erring in given]
    found = blame(
        [ModelSample(model, erring, device(model, erring)) for model, erring in given], keep=2
    )
    assert {kept.tensor for kept in found.keep} == {"t", "a"}
    shares = {share.tensor: share for share in found.shares}
    assert shares["a"].share == pytest.approx(0.5)
    assert shares["t"].size == pytest.approx(alone[0].shares[0].size / np.sqrt(2))
    whole = [each.errors["y"] for each in alone]
    assert found.errors["y"] == pytest.approx(np.sqrt(np.mean(np.square(whole))))
    left = alone[0].shares[0].left / alone[0].errors["y"]  # "y" errs there, too
    assert found.keep[1].left == pytest.approx(left / np.sqrt(2))


def test_an_infinity_that_ends_as_zero_is_blamed(chain: Chain) -> None:
    class Hiding(Chain):
        tensors = ("t",)

        def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
            return {"y": 1 / (self._x**2 + 1 + additions.get("t", 0))}

    model = Hiding(np.arange(8.0))
    error = np.zeros(8)
    error[3] = np.inf
    found = blame([ModelSample(model, [introduced("t", error)], model.run({"t": error}))])
    assert found.shares[0].share == pytest.approx(1)
    assert found.keep[0].left == 0


def test_what_is_rounded_to_16_bits_behind_an_exact_op_is_left(
    chain: Chain, errors: list[Introduced]
) -> None:
    # Nearly all of the error of "a" is rounding of its result, hardly any of that of "t".
    half = {"t": 0.1, "a": 0.99, "y": 0.99}
    rounded = [
        replace(each, handed_on=lambda part=half[each.tensor], of=each: part * of.values())
        for each in errors[:3]
    ]
    given = device(chain, rounded)
    found = blame([ModelSample(chain, rounded, given)], keep=1)
    assert [kept.op for kept in found.keep] == ["op_t"]
    again = {each.tensor: each.values() for each in rounded} | {"t": rounded[1].handed_on()}
    clean = chain.run({})["y"]
    left = np.linalg.norm(chain.run(again)["y"] - clean) / np.linalg.norm(given["y"] - clean)
    assert found.keep[0].left == pytest.approx(left)
    assert found.keep[0].anew == pytest.approx(left, rel=0.1)
