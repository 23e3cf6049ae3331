"""Scores that a recorded call fills with -inf where a mask says: infinity is no damage, a mask in
other places is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import Verdict
from tests.made.recorded_ranks import write_ranks


def step(folder: Path, mask: np.ndarray, *, fills: bool, is_device: bool = False) -> Path:
    """Scores, masked by a call if it *fills* them, else where nobody recorded it; and a softmax."""
    rng = np.random.default_rng(4)
    scores = rng.standard_normal((4, 8)).astype(np.float32)
    if is_device:
        scores *= 1 + 1e-3 * rng.standard_normal(scores.shape).astype(np.float32)
    filled = np.where(mask, np.float32(-np.inf), scores)
    share = np.exp(filled - filled.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    calls = [
        ("Torch.mul.0.forward", [scores / 2, 2], {}, [scores]),
        ("Tensor.masked_fill.0.forward", [scores, mask, float("-inf")], {}, [filled]),
        ("Torch.softmax.0.forward", [filled, -1], {}, [share]),
    ]
    return write_ranks(folder / "step0", {0: [c for c in calls if fills or "fill" not in c[0]]})


@pytest.mark.parametrize("fills", [True, False])
def test_a_mask_in_other_places_is_where_the_error_starts(fills, tmp_path):
    mask = np.triu(np.ones((4, 8), bool), 5)
    golden = step(tmp_path / "golden", mask, fills=fills)
    healthy = step(tmp_path / "healthy", mask, fills=fills, is_device=True)
    assert dg.compare(golden, None, healthy, None).verdict is not Verdict.DIVERGED
    moved = step(tmp_path / "moved", np.roll(mask, 1, axis=1), fills=fills, is_device=True)
    run = dg.compare(golden, None, moved, None)
    if fills:
        assert run.verdict is Verdict.INPUTS_DIFFER
        assert "input 1 of Tensor.masked_fill.0.forward" in run.data.run.analysis.doubt
        return
    (origin,) = run.data.origins
    assert origin.op == "Torch.softmax.0.forward"
    assert "its input 0 is off already" in origin.cause
