"""Outputs that are zero, or were not written, where they should not be."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, Mask, SampledTensors
from divergraph.rootcause.causes.limits import ALL, FEW, GUESS, LIKELY, SURE
from divergraph.rootcause.causes.words import share_text, slices_text
from divergraph.text.words import counted
from graphstore.model import EvidenceValue

_SMALLEST_NORMAL = 2.0**-14
"""Of float16."""
_LONGEST_TAIL = 0.9
"""The share of the output that may be a tail that was not written; more is another fault."""


def all_zero(view: SampledTensors) -> Cause | None:
    """The output is zero throughout."""
    if _one_value(view) != 0.0:
        return None
    count, largest = view.case.device.size, float(np.abs(view.r).max())
    evidence: dict[str, EvidenceValue] = {"value": 0.0, "expected_rms": view.size}
    if largest < _SMALLEST_NORMAL and view.unit >= 2.0**-11:
        return Cause(
            "flush_to_zero",
            f"all {counted(count, 'value')} became 0: they are at most {largest:.3g}, "
            f"below the smallest normal float16 {_SMALLEST_NORMAL:.3g}",
            LIKELY,
            {**evidence, "threshold": largest},
        )
    return Cause(
        "all_zero",
        f"the output is all zero; values of about {view.size:.3g} are expected",
        SURE if count > 1 else GUESS,
        evidence,
    )


def constant_output(view: SampledTensors) -> Cause | None:
    """The output is one value throughout, and no other setting of the op explains it."""
    value = _one_value(view) if view.case.device.size >= 4 else None
    if not value or view.spread <= 4.0 * view.noise:
        return None
    return Cause(
        "constant_output",
        f"every value is {value:.6g}, where a standard deviation of {view.spread:.3g} is "
        "expected: the output may not have been written, or one value was broadcast",
        LIKELY,
        {"value": value, "expected_rms": view.size},
    )


def _one_value(view: SampledTensors) -> float | None:
    """The value that all elements of a wrong output have, up to rounding; None if they differ."""
    if view.error == 0.0 or not view.finite.all():
        return None
    flat = view.case.device.reshape(-1)
    value = float(view.d.mean()) if np.any(flat != flat[0]) else float(flat[0])
    alike = float(np.abs(view.d - value).max()) <= 6.0 * view.unit * abs(value)
    return value if alike else None


def tail_not_written(view: SampledTensors) -> Cause | None:
    """Zeros from some index in memory to the end."""
    device = np.asarray(view.case.device).reshape(-1)
    reference = np.asarray(view.case.reference).reshape(-1)
    alive = np.flatnonzero(device)
    if alive.size == 0 or device.size < 8:
        return None
    start = int(alive[-1]) + 1
    tail = reference[start:]
    lost = int(np.count_nonzero(np.abs(tail) > view.noise))
    # Summed over the whole tensor, as the view may be a sample.
    before = device[:start].astype(np.float64) - reference[:start]
    before_error = float(np.sum(before[np.isfinite(before)] ** 2))
    tail_error = float(np.sum(np.square(tail[np.isfinite(tail)], dtype=np.float64)))
    share = tail_error / (tail_error + before_error) if tail_error else 0.0
    if lost < 2 or tail.size < 2 or share < ALL or tail.size > _LONGEST_TAIL * device.size:
        return None
    # One value that is lost next to others that are 0 anyway may be a dead channel as well.
    if _one_channel(view, tail.size):
        return None
    return Cause(
        "tail_not_written",
        f"the last {counted(tail.size, 'value')} ({share_text(tail.size, device.size)}) are "
        f"zero from index {start} on, {lost} of them should not be: the end was not written",
        SURE if tail.size >= FEW else LIKELY,
        {"start": start, "zeros": int(tail.size), "lost": lost, "energy_share": share},
    )


def _one_channel(view: SampledTensors, length: int) -> bool:
    """Whether a zero tail is exactly the last channel: then it is a dead channel."""
    shape, axes = view.case.reference.shape, view.axes()
    if not axes:
        return False
    axis = axes[0]
    leading = int(np.prod(shape[:axis], dtype=np.int64))
    one = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    return leading == 1 and shape[axis] >= 4 and one > 1 and length == one


def zero_slices(view: SampledTensors) -> Cause | None:
    """Whole channels (or slices of another axis) that are zero."""
    zero: Mask = (view.d == 0.0) & (np.abs(view.r) > view.tolerance)
    if not zero.any() or view.share(zero) < ALL:
        return None
    for axis in view.axes():
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        if view.d.shape[axis] == view.d.size and view.d.size < 4:
            continue
        dead = np.all(view.d == 0.0, axis=rest) & np.any(view.r != 0.0, axis=rest)
        numbers = np.flatnonzero(dead)
        inside = np.expand_dims(dead, rest) & np.ones_like(zero)
        if not 0 < numbers.size <= 0.75 * dead.size or view.share(inside) < ALL:
            continue
        per_slice = view.d.size // dead.size
        if per_slice == 1 and numbers.size > 1 and not _contiguous(numbers):
            continue  # scattered zeros of a vector are more likely flushed small values
        what = slices_text(numbers.tolist(), axis, view)
        verb = "is" if numbers.size == 1 else "are"
        return Cause(
            "dead_channels",
            f"{what} {verb} all zero ({numbers.size} of {dead.size}); the others are right",
            SURE if per_slice >= FEW else GUESS,
            {
                "axis": axis,
                "slices": (numbers * view.steps[axis]).tolist()[:64],
                "of": int(dead.size),
            },
        )
    return None


def flush_to_zero(view: SampledTensors) -> Cause | None:
    """Zeros exactly where the expected values are small."""
    zero: Mask = (view.d == 0.0) & (view.r != 0.0)
    nonzero: Mask = (view.d != 0.0) & (view.r != 0.0)
    count = int(np.count_nonzero(zero))
    if count < 3 or not nonzero.any() or view.share(zero) < ALL:
        return None
    gone, stay = np.abs(view.r[zero]), np.abs(view.r[nonzero])
    high, low = float(np.quantile(gone, ALL)), float(np.quantile(stay, 1.0 - ALL))
    overlap = max(1.3 * low, low + 4.0 * view.noise)
    if high > overlap:
        return _negatives(view, zero, nonzero)
    threshold = float(gone.max())
    exact = float(gone.max()) <= 1.05 * float(stay.min()) + 4.0 * view.noise
    if (view.r[zero] < 0).all() and (view.r[nonzero] > 0).all():
        return _negatives(view, zero, nonzero)
    note = ""
    if abs(threshold / _SMALLEST_NORMAL - 1.0) < 0.1:
        note = f", the smallest normal float16 {_SMALLEST_NORMAL:.3g}"
    return Cause(
        "flush_to_zero",
        f"{counted(count, 'value')} became 0, exactly those of at most {threshold:.3g}{note}; "
        "larger ones are right: small values are flushed to zero",
        SURE if exact and count >= FEW else LIKELY,
        {"zeros": count, "threshold": threshold, "smallest_kept": float(stay.min())},
    )


def scattered_zeros(view: SampledTensors) -> Cause | None:
    """Scattered zeros, small and large; the others are right, or scaled up as Dropout does."""
    seen: Mask = np.abs(view.r) > view.tolerance
    zero: Mask = (view.d == 0.0) & seen
    nonzero: Mask = (view.d != 0.0) & seen
    count, count_left = int(np.count_nonzero(zero)), int(np.count_nonzero(nonzero))
    if count < 16 or count_left < 16:
        return None
    share = count / (count + count_left)
    ratios = view.d[nonzero] / view.r[nonzero]
    gain = float(np.median(ratios))
    predicted = np.where(zero, 0.0, gain * view.r)
    if not view.fits(predicted, seen) or not 0.5 < gain < 4.0:
        return None
    if not _scattered(zero, share):
        return None
    drops = abs(gain * (1.0 - share) - 1.0) < 0.1 and gain > 1.02
    if not drops and abs(gain - 1.0) > 0.02:
        return None
    rest = f"the others are {gain:.4g} times the expected" if drops else "the others are right"
    guess = "as a Dropout does in training" if drops else "values lost, or a mask applied twice"
    return Cause(
        "scattered_zeros",
        f"{counted(count, 'value')} ({100 * share:.3g} %), small and large ones, are zero and "
        f"{rest}: {guess}",
        SURE if drops else LIKELY,
        {"zeros": count, "share": share, "gain_of_kept": gain},
    )


def _scattered(zero: Mask, share: float) -> bool:
    """Whether a zero follows another zero in memory no more often than by chance."""
    flat = zero.reshape(-1)
    after = float(np.mean(flat[1:][flat[:-1]])) if flat[:-1].any() else 0.0
    return after < share + max(0.1, 4.0 * float(np.sqrt(share / np.count_nonzero(flat))))


def _negatives(view: SampledTensors, zero: Mask, nonzero: Mask) -> Cause | None:
    if not ((view.r[zero] < 0).all() and (view.r[nonzero] > 0).mean() > 0.999):
        return None
    count = int(np.count_nonzero(zero))
    if count < 3 or view.share(zero) < ALL:
        return None
    return Cause(
        "wrong_activation",
        f"all {counted(count, 'negative value')} became 0, positive ones are right: as if a "
        "Relu followed, or an unsigned type",
        SURE if count >= FEW else GUESS,
        {"cut": count, "lowest_expected": float(view.r.min())},
    )


def _contiguous(numbers: np.ndarray) -> bool:
    return int(numbers[-1] - numbers[0]) == numbers.size - 1


CAUSES = (
    CauseRule(all_zero, CauseStage.MISSING, 10, {"all_zero": SURE}, of_a_part=True),
    CauseRule(tail_not_written, CauseStage.MISSING, 40, {"tail_not_written": SURE}),
    CauseRule(zero_slices, CauseStage.MISSING, 50, {"dead_channels": LIKELY}),
    CauseRule(flush_to_zero, CauseStage.MISSING, 60, {"flush_to_zero": LIKELY}, of_a_part=True),
    CauseRule(constant_output, CauseStage.ORDER, 10, {"constant_output": SURE}, of_a_part=True),
    CauseRule(scattered_zeros, CauseStage.VAGUE, 10, {"scattered_zeros": LIKELY}, of_a_part=True),
)
