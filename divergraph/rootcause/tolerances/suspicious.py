"""What tolerances of the stage SUSPICIOUS share."""

from __future__ import annotations

from divergraph.rootcause.devices.precision import SMALLEST_NORMAL_FP32
from divergraph.rootcause.tolerances.contract import OpContext, ToleranceEstimate


def are_floats(told: ToleranceEstimate) -> bool:
    """Whether both sides hold real numbers at all: only those are rounded."""
    device, reference = told.device, told.reference
    return (
        device is not None
        and reference.size > 0
        and reference.dtype.kind == "f"
        and device.dtype.kind == "f"
    )


def smallest_normal(context: OpContext, told: ToleranceEstimate) -> float:
    """The smallest normal number of what the device holds: it may hold an output in more bits
    than it computes in, and then small numbers are kept."""
    precision = context.arithmetic.precision
    narrow = told.device is not None and precision.fits(told.device)
    return precision.smallest_normal if narrow else SMALLEST_NORMAL_FP32
