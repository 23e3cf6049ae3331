"""What a recorded run shows of functions that it does not record, as of modules alone (L0)."""

from __future__ import annotations

import numpy as np
import pytest

import divergraph as dg
from tests.made.recorded_ranks import Call, write_ranks

DRAW = np.random.default_rng(3)
X, GRADIENT = DRAW.standard_normal((2, 256, 64)).astype(np.float32)
FIRST, SECOND = DRAW.standard_normal((2, 64, 64)).astype(np.float32) / 8
NOISE = np.float32(0.003) * DRAW.standard_normal(X.shape).astype(np.float32)


def two_layers(noise: float = 0.0, factor: float = 1.0) -> list[Call]:
    """Two layers there and back, of which the first cannot be run again and has some *noise*. The
    ReLU between them is not recorded, nor is the loss, whose gradient is taken *factor* times."""
    made = X @ FIRST.T + np.float32(noise) * NOISE
    gated, gradient = np.maximum(made, 0), GRADIENT * np.float32(factor)
    before_gate = gradient @ SECOND
    behind_gate = before_gate * (made > 0)
    return [
        ("Torch.strange.0.forward", [X, FIRST], {}, [made]),
        ("Functional.linear.0.forward", [gated, SECOND], {}, [gated @ SECOND.T]),
        ("Functional.linear.0.backward", [gradient], {}, [before_gate, gradient.T @ gated]),
        ("Torch.strange.0.backward", [behind_gate], {}, [behind_gate @ FIRST, behind_gate.T @ X]),
    ]


@pytest.mark.parametrize(
    ("factor", "origins"), [(1.0, []), (1.25, ["Functional.linear.0.backward"])]
)
def test_what_a_gate_lets_through_otherwise_is_no_origin_and_a_factor_is(tmp_path, factor, origins):
    """A few values of a thousand have the other sign, and their gradients are altogether wrong."""
    write_ranks(tmp_path / "golden" / "step0", {0: two_layers()})
    write_ranks(tmp_path / "device" / "step0", {0: two_layers(1.0, factor)})
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    assert [origin.op.rpartition("/")[2] for origin in run.data.origins] == origins
    assert all("1.25 times golden's" in origin.cause for origin in run.data.origins)
