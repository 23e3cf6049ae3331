"""Messages between ranks that are dumped before they have come, as calls that do not wait allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import Verdict
from tests.made.recorded_ranks import Call, write_ranks

RANKS = 3
BODY = "Module.attn.Attention.forward.0"


def ring(step: Path, *, is_device: bool, is_stale: bool = False) -> None:
    """Each rank passes its rows, and then those that it got, to the next one, and adds up all in
    one call. *is_stale*: the first that rank 1 gets are its own."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((RANKS, 6, 8)).astype(np.float32)
    if is_device:
        rows *= 1 + 1e-3 * rng.standard_normal(rows.shape).astype(np.float32)
    held = [[own] for own in rows]
    calls: dict[int, list[Call]] = {
        rank: [("Torch.mul.0.forward", [own / 2, 2], {}, [own])] for rank, own in enumerate(rows)
    }
    for turn in range(RANKS - 1):
        passed = [held[rank][-1] for rank in range(RANKS)]
        for rank in range(RANKS):
            came = passed[rank if is_stale and (turn, rank) == (0, 1) else rank - 1]
            batch = [
                {"tensor": passed[rank], "op": "isend", "peer": (rank + 1) % RANKS, "tag": 0},
                {"tensor": 0 * came, "op": "irecv", "peer": (rank - 1) % RANKS, "tag": 0},
            ]
            name = f"Distributed.batch_isend_irecv.{turn}.forward"
            calls[rank].append((name, [batch], {}, [batch]))
            held[rank].append(came)
    for rank, own in enumerate(held):
        joined = np.concatenate(own)
        calls[rank].append(("Torch.mul.1.forward", [joined, 3], {}, [joined * 3]))
    write_ranks(step, calls, {name: BODY for each in calls.values() for name, *_ in each})


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_stale_message_is_named_by_itself_where_no_dump_has_it(is_stale, tmp_path):
    ring(tmp_path / "golden" / "step0", is_device=False)
    ring(tmp_path / "device" / "step0", is_device=True, is_stale=is_stale)
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    if not is_stale:
        assert run.verdict is Verdict.CLEAN
        return
    (origin,) = run.data.origins
    assert origin.op == f"ranks0>1/{BODY}/Distributed.batch_isend_irecv.0.forward.0"
    assert "lost, stale, or read before it came" in origin.cause
