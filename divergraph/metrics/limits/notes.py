"""Notes for metrics whose value needs an explanation."""

from __future__ import annotations

from divergraph.metrics.sums import SideSums

EMPTY = "the tensor has no elements"
SCALAR = "the tensor is a single value: its cosine is 1 by definition"
BOOLEAN = "not defined for boolean tensors"
BOTH_ZERO = "all values are zero on both sides"
DEVICE_ZERO = "all values are zero on the device side only"
GOLDEN_ZERO = "all values are zero on the golden side only"
SAME_NONFINITE = "both sides hold the same NaN or infinite values"


def nonfinite(count: int, device: SideSums, golden: SideSums, unlike: int) -> str:
    """A note on how many NaN and infinities each side has among *count* values."""
    if unlike == 0:
        return f"{SAME_NONFINITE}: {_amount(golden)} of {count}"
    return f"device has {_amount(device)}, golden {_amount(golden)} of {count} values"


def _amount(side: SideSums) -> str:
    parts = []
    if side.nans:
        parts.append(f"{side.nans} NaN")
    if side.infinities:
        parts.append(f"{side.infinities} infinite")
    return " and ".join(parts) if parts else "none"
