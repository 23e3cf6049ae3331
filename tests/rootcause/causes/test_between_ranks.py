"""Causes of what a rank gets wrong of a call between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import FindingKind
from tests.made.recorded_ranks import Call, write_ranks

OWN = [np.random.default_rng(rank).standard_normal((6, 8)).astype(np.float32) for rank in range(3)]
SUM = OWN[0] + OWN[1] + OWN[2]


def job(step: Path, call: str, gathered: bool, outputs: Sequence[np.ndarray]) -> Path:
    """Three ranks that make their own tensor and get *outputs* of a *call* between them."""

    def calls(rank: int) -> list[Call]:
        made = ("Torch.mul.0.forward", [OWN[rank] / 2, 2], {}, [OWN[rank]])
        arguments = [None, OWN[rank]] if gathered else [OWN[rank]]
        output = [outputs[rank], *([OWN[rank]] if gathered else [])]
        return [made, (f"Distributed.{call}.0.forward", arguments, {}, output)]

    return write_ranks(step, {rank: calls(rank) for rank in range(3)}).parent


def cause_of(folder: Path, call: str, golden: np.ndarray, device: np.ndarray) -> tuple[str, str]:
    """The label and the sentence where rank 1 alone gets *device*."""
    gathered = call == "all_gather_into_tensor"
    right = job(folder / "golden" / "step0", call, gathered, [golden] * 3)
    wrong = job(folder / "device" / "step0", call, gathered, [golden, device, golden])
    data = dg.compare(right, None, wrong, None).data
    (cause,) = (each for each in data.findings if each.kind is FindingKind.CAUSE)
    return cause.label, cause.sentence


@pytest.mark.parametrize(
    ("device", "label", "said"),
    [
        (SUM / 3, "other_reduction", "it is the mean of what 3 ranks gave, golden the sum"),
        (SUM - OWN[2], "rank_missing", "what rank 2 gave is missing"),
        (OWN[1], "rank_missing", "rank 1 has what it gave itself"),
        (SUM + OWN[0], "rank_twice", "what rank 0 gave is in it twice"),
    ],
)
def test_what_was_added_up_in_place_of_all(device, label, said, tmp_path):
    found, sentence = cause_of(tmp_path, "all_reduce", SUM, device)
    assert found == label
    assert said in sentence


def test_parts_in_the_order_of_other_ranks(tmp_path):
    golden, device = np.concatenate(OWN), np.concatenate([OWN[2], OWN[0], OWN[1]])
    found, sentence = cause_of(tmp_path, "all_gather_into_tensor", golden, device)
    assert found == "ranks_reordered"
    assert "those of ranks 2, 0, 1, golden's those of 0, 1, 2" in sentence
