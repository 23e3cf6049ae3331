"""Jobs whose ranks send each other rows that were chosen: near ties are chosen otherwise on the
device, which is no fault, and does not hide one on a rank that chose alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import Verdict
from tests.made.recorded_ranks import Call, write_ranks

RANKS = 3
BODY = "Module.experts.Experts.forward.0"


def job(step: Path, *, is_device: bool, is_swapped: bool = False) -> None:
    """Each rank sorts its rows by the largest of them, sends a third to each rank, and sorts what
    it got by expert. Rank 0 has a near tie, of rows that stay; on all ranks the device divides, as
    golden does not. *is_swapped*: rank 2 takes the other expert."""
    rng = np.random.default_rng(5)
    values = rng.standard_normal((RANKS, 6, 8)).astype(np.float32)
    values[0, 0, :2] = 9.0, 9.0001
    if is_device:
        values *= 1 + 1e-3 * rng.standard_normal(values.shape).astype(np.float32)
        values[0, 0, 0] = 9.002
    chosen = values.argmax(-1)
    order = chosen.argsort(-1, kind="stable")
    rows = np.stack([own[at] for own, at in zip(values, order, strict=True)])
    experts = np.array([0, 1, 0, 0, 1, 1])
    calls: dict[int, list[Call]] = {}
    for rank in range(RANKS):
        got = np.concatenate([np.split(sent, RANKS)[rank] for sent in rows])
        further: list[Call] = []
        if is_device:
            further = [("Tensor.__truediv__.0.forward", [values[rank], 2], {}, [values[rank] / 2])]
        expert_of = experts
        if is_swapped and rank == 2:
            expert_of = (experts + 1) % 2
            further += [
                ("Tensor.__add__.0.forward", [experts, 1], {}, [experts + 1]),
                ("Tensor.__mod__.0.forward", [experts + 1, 2], {}, [expert_of]),
            ]
        by_expert = expert_of.argsort(kind="stable")
        calls[rank] = [
            ("Torch.mul.0.forward", [values[rank] / 2, 2], {}, [values[rank]]),
            ("Torch.argmax.0.forward", [values[rank], -1], {}, [chosen[rank]]),
            ("Torch.argsort.0.forward", [chosen[rank]], {"stable": True}, [order[rank]]),
            (
                "Distributed.all_to_all_single.0.forward",
                [None, rows[rank]],
                {},
                [got, rows[rank]],
            ),
            *further,
            ("Torch.argsort.1.forward", [expert_of], {"stable": True}, [by_expert]),
            ("Torch.mul.1.forward", [got[by_expert], 3], {}, [got[by_expert] * 3]),
        ]
    inside = {name: BODY for of_rank in calls.values() for name, *_ in of_rank}
    write_ranks(step, calls, inside)


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_choice_of_one_rank_hides_no_fault_of_another(is_swapped, tmp_path):
    job(tmp_path / "golden" / "step0", is_device=False)
    job(tmp_path / "device" / "step0", is_device=True, is_swapped=is_swapped)
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    if not is_swapped:
        assert run.verdict is Verdict.WITHIN_ROUNDING
        return
    (origin,) = run.data.origins
    assert origin.op == f"rank2/{BODY}/Torch.argsort.1.forward"
    assert "the device calls rank2/Tensor.__add__.0.forward and 1 more call" in origin.cause
