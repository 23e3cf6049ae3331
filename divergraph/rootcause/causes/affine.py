"""Outputs that are the expected ones times a gain, plus an offset, or both.

One gain or offset for the whole tensor, or one for each channel (or slice of another axis).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.words import slices_text
from divergraph.text.words import counted
from graphstore.model import EvidenceValue

_SHORT = 8
"""Slices with fewer elements let a line fit by chance."""
_NO_GAIN = 1e-3
"""Below this gain nothing of the expected values comes out: the slice is dead."""
_LISTED = 64
"""Slices that are listed in the evidence."""
Places: TypeAlias = npt.NDArray[np.intp]
_SMALLEST_NORMAL = 2.0**-14
"""Below it float16 loses digits."""
_MULTIPLIES = frozenset(("Mul", "Div", "RealDiv", "Scale"))
_ADDS = frozenset(("Add", "Sub", "BiasAdd", "AddV2"))
_NORMS = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm", "FusedBatchNorm")


@dataclass(frozen=True)
class _Fit:
    """d = gain * r + offset, for the whole tensor (axis None) or each slice of an axis."""

    axis: int | None
    gain: Floats | None
    offset: Floats | None
    left: float
    """The share of the error's norm that is left, corrected for the number of parameters."""
    good: bool
    per_slice: float


def whole_line(view: SampledTensors) -> Cause | None:
    """A known bias lost or doubled, or a gain or offset of the whole tensor."""
    use = _usable(view)
    if np.count_nonzero(use) < 4:
        return None
    known = _known_vector(view, use)
    if known is not None:
        return known
    whole = [fit for fit in _fits(view, use, None) if fit.good]
    if not whole or _flat(whole):
        return None
    return _either(view, use, _whole(view, _simplest(view, whole)))


def _either(view: SampledTensors, use: Mask, cause: Cause) -> Cause:
    """*cause*, less sure where all expected values are alike: a gain is an offset there."""
    if float(np.ptp(view.r[use])) > 0.02 * float(np.abs(view.r[use]).max()):
        return cause
    both = "; all expected values are alike, so a gain and an offset are the same here"
    return replace(cause, sentence=cause.sentence + both, confidence=min(cause.confidence, 0.6))


def affine(view: SampledTensors) -> Cause | None:
    """A gain or an offset of each channel or slice."""
    use = _usable(view)
    if np.count_nonzero(use) < 4:
        return None
    for axis in view.axes():
        if view.d.shape[axis] < 2 or view.d.size / view.d.shape[axis] < 3:
            continue
        found = [fit for fit in _fits(view, use, axis) if fit.good]
        if found:
            return _sliced(view, _simplest(view, found), axis)
    return None


def _known_vector(view: SampledTensors, use: Mask) -> Cause | None:
    """A known bias that is missing everywhere, or added twice: nothing has to be fitted."""
    for axis in view.axes():
        for name, vector in _vectors(view, axis):
            shape = [1] * view.d.ndim
            shape[axis] = vector.size
            bias = vector.reshape(shape)
            for sign, label, what in (
                (-1.0, "lost_bias", "missing"),
                (1.0, "doubled_bias", "added twice"),
            ):
                if not view.fits(view.r + sign * bias, use, rest=0.08):
                    continue
                return Cause(
                    label,
                    f"bias {what} in all {vector.size} channels: the output is off by {name} "
                    f"(up to {float(np.abs(vector).max()):.3g})",
                    0.95 if vector.size >= _SHORT else 0.6,
                    {"axis": axis, "bias": name, "factor": sign, "of": int(vector.size)},
                )
    return None


def _flat(fits: list[_Fit]) -> bool:
    """Whether the fit is a constant: then the output does not follow the reference at all."""
    gain = fits[0].gain
    both = gain is not None and fits[0].offset is not None
    return both and gain is not None and abs(float(gain.reshape(-1)[0])) < 0.02


def _usable(view: SampledTensors) -> Mask:
    """The elements where a line can be seen: behind a Relu only those positive on both sides."""
    zeros = float(np.mean(view.r == 0.0))
    cut = float(view.r.min()) >= 0.0 and float(view.d.min()) >= -2.0 * view.noise
    if zeros > 0.05 and cut:
        return np.asarray((view.r > 0.0) & (view.d > 0.0) & view.finite)
    return view.finite


def _fits(view: SampledTensors, use: Mask, axis: int | None) -> Iterator[_Fit]:
    """The fits by least squares of an offset, of a gain, then of both."""
    rest = None if axis is None else tuple(a for a in range(view.d.ndim) if a != axis)

    def total(values: Floats) -> Floats:
        return np.asarray(values.sum(axis=rest, keepdims=True))

    d, r = np.where(use, view.d, 0.0), np.where(use, view.r, 0.0)
    count = np.maximum(total(use.astype(np.float64)), 1.0)
    mean_d, mean_r = total(d) / count, total(r) / count
    square, cross = total(r * r), total(r * d)
    seen = int(np.count_nonzero(total(use.astype(np.float64)) > 0))
    per_slice = np.count_nonzero(use) / max(1, seen)
    offset = mean_d - mean_r
    yield _fit(view, use, (axis, None, offset), seen, per_slice)
    gain = np.where(square > 0.0, cross / np.maximum(square, 1e-300), 1.0)
    yield _fit(view, use, (axis, gain, None), seen, per_slice)
    if per_slice < 5.0:
        return
    varies = square - count * mean_r**2
    steady = varies <= 1e-9 * np.maximum(square, 1e-300)
    slope = np.where(steady, 1.0, (cross - count * mean_r * mean_d) / np.where(steady, 1.0, varies))
    yield _fit(view, use, (axis, slope, mean_d - slope * mean_r), 2 * seen, per_slice)


def _fit(
    view: SampledTensors,
    use: Mask,
    line: tuple[int | None, Floats | None, Floats | None],
    parameters: int,
    per_slice: float,
) -> _Fit:
    axis, gain, offset = line
    predicted = view.r if gain is None else gain * view.r
    predicted = predicted if offset is None else predicted + offset
    left, error = (view.d - predicted)[use], view.e[use]
    count = left.size
    free = max(count - parameters, 1)
    spent = float(np.sqrt(count / free))
    remaining, whole = rms(left) * spent, rms(error)
    good = view.little(left * spent, error)
    # Behind a Relu, the elements that were cut must at least agree with the fit.
    outside = view.d[~use] - np.maximum(predicted[~use], 0.0) if not use.all() else view.d[:0]
    good = good and _agrees(view, predicted, use)
    if outside.size and good and rms(outside) > max(0.3 * view.error, 2.0 * view.noise):
        good = False
    share = remaining / whole if whole else 0.0
    return _Fit(axis, gain, offset, share, good, per_slice)


def _agrees(view: SampledTensors, predicted: Floats, use: Mask) -> bool:
    """Whether most single values follow the fit, not only the few with all of the energy."""
    seen = use & (np.abs(view.e) > 2.0 * view.unit * np.abs(view.r)) & (view.e != 0.0)
    seen &= (np.abs(view.r) > _SMALLEST_NORMAL) | (np.abs(view.d) > _SMALLEST_NORMAL)
    if not seen.any():
        return True
    error, left = np.abs(view.e[seen]), np.abs(view.d - predicted)[seen]
    return float(np.mean(left <= 0.5 * error + view.unit * np.abs(view.r[seen]))) >= 0.6


def _simplest(view: SampledTensors, fits: list[_Fit]) -> _Fit:
    """The fit with one parameter that leaves least, the one with both only if neither fits. Where
    gain and offset fit equally well, the op's type decides."""
    single = [fit for fit in fits if fit.gain is None or fit.offset is None]
    if not single:
        return fits[0]
    if len(single) == 2 and abs(single[0].left - single[1].left) < 0.05:
        if set(view.case.types) & _MULTIPLIES and not set(view.case.types) & _ADDS:
            return single[1]
        if set(view.case.types) & _ADDS and not set(view.case.types) & _MULTIPLIES:
            return single[0]
    return min(single, key=lambda fit: fit.left)


def _whole(view: SampledTensors, fit: _Fit) -> Cause:
    sure = 0.95 if view.d.size >= 4 * _SHORT else 0.6
    if fit.gain is None and fit.offset is not None:
        offset = float(fit.offset.reshape(-1)[0])
        return Cause(
            "global_offset",
            f"every value is off by the same {offset:+.5g}: a wrong zero point or constant operand",
            sure,
            {"offset": offset, "left": fit.left},
        )
    assert fit.gain is not None
    gain = float(fit.gain.reshape(-1)[0])
    percent = 100.0 * (gain - 1.0)
    if fit.offset is None:
        return Cause(
            "gain",
            f"every value is {gain:.6g} times the expected one ({percent:+.3g} %): a wrong scale"
            f"{_scale_hint(gain, view)}",
            sure,
            {"gain": gain, "left": fit.left},
        )
    offset = float(fit.offset.reshape(-1)[0])
    return Cause(
        "gain_and_offset",
        f"every value is {gain:.6g} times the expected one {offset:+.5g}: a wrong scale and "
        "zero point, or another function that is nearly linear here",
        0.75 * sure,
        {"gain": gain, "offset": offset, "left": fit.left},
    )


def _scale_hint(gain: float, view: SampledTensors) -> str:
    known = {2.0: "2", 0.5: "1/2", -1.0: "the sign", 0.25: "1/4", 4.0: "4", 1 / 255: "1/255"}
    for value, word in known.items():
        if abs(gain / value - 1.0) < 2e-3:
            return f" (exactly {word})"
    for size in sorted({size for each in view.case.inputs.values() for size in each.shape}):
        if size < 2:
            continue
        for value, word in (
            (size, f"the count {size}"),
            (1 / size, f"1/{size}"),
            (size**-0.5, f"1/sqrt({size})"),
            (size / (size - 1), f"{size}/{size - 1}: the count of an average"),
        ):
            if abs(gain / value - 1.0) < 2e-4:
                return f" (exactly {word})"
    return ""


def _sliced(view: SampledTensors, fit: _Fit, axis: int) -> Cause:
    count = view.d.shape[axis]
    if fit.gain is None and fit.offset is not None:
        return _slice_offset(view, fit, axis)
    assert fit.gain is not None
    gains = fit.gain.reshape(-1)
    off = np.abs(gains - 1.0)
    middle = float(np.median(gains))
    if fit.offset is None and float(np.quantile(np.abs(gains - middle), 0.9)) < 0.25 * abs(
        middle - 1.0
    ):
        return Cause(
            "gain",
            f"every value is about {middle:.5g} times the expected one, in each of {count} slices "
            f"of axis {axis} (not all alike): a wrong scale",
            0.75,
            {"gain": middle, "axis": axis, "left": fit.left},
        )
    hit = np.flatnonzero(off > max(0.02 * float(off.max()), 2.0 * view.case.floor))
    if hit.size == 0 and fit.offset is not None:  # all gains are within the floor: offsets remain
        return _slice_offset(view, fit, axis)
    if hit.size == 0:
        hit = np.flatnonzero(off >= 0.5 * float(off.max()))
    where = slices_text(hit.tolist(), axis, view)
    if fit.offset is not None and float(np.abs(gains[hit]).max()) < _NO_GAIN:
        return _constant_slices(view, fit, axis, hit)
    norm = any(name in each for name in _NORMS for each in view.case.types)
    hint = " (the norm's epsilon or variance?)" if norm else ""
    both = " and a constant away" if fit.offset is not None else ""
    name = "channel" if axis == view.axes()[0] else f"slice of axis {axis}"
    said = f"a scale is wrong per {name}: {where} {'is' if hit.size == 1 else 'are'}"
    if hit.size == count:
        said = f"a scale is wrong per {name}: each of {count} is"
    least, most = f"{float(gains[hit].min()):.5g}", f"{float(gains[hit].max()):.5g}"
    times = least if least == most else f"{least} to {most}"
    return Cause(
        "channel_gain",
        f"{said} {times} times what is expected{both}{hint}",
        _slice_confidence(fit, 0.9),
        {
            "axis": axis,
            "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
            "gains": [round(float(each), 6) for each in gains[hit][:_LISTED]],
            "left": fit.left,
        },
    )


def _constant_slices(view: SampledTensors, fit: _Fit, axis: int, hit: Places) -> Cause:
    """The cause where slices hold one value each: their weights are lost, the bias is left."""
    assert fit.offset is not None
    values = fit.offset.reshape(-1)[hit]
    where = slices_text(hit.tolist(), axis, view)
    return Cause(
        "dead_channels",
        f"{where}: one value throughout ({float(values.min()):.5g} to {float(values.max()):.5g}), "
        "whatever is expected; the others are right: weights lost, with the bias left?",
        _slice_confidence(fit, 0.9),
        {
            "axis": axis,
            "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
            "values": [round(float(each), 6) for each in values[:_LISTED]],
            "left": fit.left,
        },
    )


def _slice_offset(view: SampledTensors, fit: _Fit, axis: int) -> Cause:
    assert fit.offset is not None
    offsets = fit.offset.reshape(-1)
    largest = float(np.abs(offsets).max())
    enough = max(0.02 * largest, 3.0 * view.noise / float(np.sqrt(max(fit.per_slice, 1.0))))
    hit = np.flatnonzero(np.abs(offsets) > enough)
    if hit.size == 0:
        hit = np.array([int(np.argmax(np.abs(offsets)))])
    where = slices_text(hit.tolist(), axis, view)
    evidence: dict[str, EvidenceValue] = {
        "axis": axis,
        "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
        "of": int(offsets.size),
        "offsets": [float(f"{each:.5g}") for each in offsets[hit][:_LISTED]],
        "left": fit.left,
    }
    for name, bias in _vectors(view, axis):
        factor = _factor(offsets[hit], bias[hit])
        if factor is None:
            continue
        least = float(np.abs(offsets[hit]).min())
        values = (
            f"{least:.3g}"
            if f"{least:.3g}" == f"{largest:.3g}"
            else f"{least:.3g} to {largest:.3g}"
        )
        what, label = ("missing", "lost_bias") if factor < 0 else ("added twice", "doubled_bias")
        return Cause(
            label,
            f"bias {what} in {where}: each is off by its value of {name} ({values})",
            _slice_confidence(fit, 0.97),
            {**evidence, "bias": name, "factor": factor},
        )
    return Cause(
        "channel_offset",
        f"a constant per channel is off in {where} (by up to {largest:.4g}, "
        f"{counted(hit.size, 'channel')} of {offsets.size}), the rest is right: a lost bias or "
        "wrong zero point",
        _slice_confidence(fit, 0.93),
        evidence,
    )


def _vectors(view: SampledTensors, axis: int) -> Iterator[tuple[str, Array]]:
    """The constants and inputs with one value for each slice of *axis*, sampled like the view."""
    size = view.case.reference.shape[axis]
    for source in (view.case.constants, view.case.inputs):
        for name, values in source.items():
            if values.size == size and max(values.shape, default=0) == size and size > 1:
                yield name, np.asarray(values, np.float64).reshape(-1)[:: view.steps[axis]]


def _factor(offsets: Floats, bias: Floats) -> float | None:
    """-1 if the offsets are those of a lost *bias*, 1 if it was added twice, else None."""
    power = float(bias @ bias)
    if power == 0.0:
        return None
    for factor in (-1.0, 1.0):
        if rms(offsets - factor * bias) <= 0.1 * rms(bias):
            return factor
    return None


def _slice_confidence(fit: _Fit, sure: float) -> float:
    if fit.per_slice >= 4 * _SHORT:
        return sure
    return 0.85 * sure if fit.per_slice >= _SHORT else 0.6 * sure


CAUSES = (
    CauseRule(
        whole_line,
        CauseStage.LINE,
        10,
        {"gain": 0.75, "global_offset": 0.75, "gain_and_offset": 0.65},
        of_a_part=True,
    ),
    CauseRule(
        affine,
        CauseStage.LINE,
        30,
        {"lost_bias": 0.79, "doubled_bias": 1.0, "channel_gain": 0.65, "channel_offset": 0.75},
        of_a_part=True,
    ),
)
