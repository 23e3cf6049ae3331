"""Outputs that are the expected ones times a gain, plus an offset, or both.

One gain or offset for the whole tensor, or one for each channel (or slice of another axis).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import CLOSE, FEW, GUESS, LEFT, LIKELY, NO_GAIN, SURE
from divergraph.rootcause.causes.line_fits import LineFit, line_fits, simplest, usable
from divergraph.rootcause.causes.words import share_text, slices_name, slices_text
from divergraph.text.words import counted
from graphstore.model import EvidenceValue

_FEWEST = 3
"""Elements a line is drawn through."""
_MOSTLY = 0.7
"""The share of what one line leaves that lines of each slice may leave to be told instead."""
_LISTED = 64
"""Slices that are listed in the evidence."""
Places: TypeAlias = npt.NDArray[np.intp]


def whole_line(view: SampledTensors) -> Cause | None:
    """A known bias lost or doubled, or a gain or offset of the whole tensor."""
    use = usable(view)
    if np.count_nonzero(use) < _FEWEST:
        return None
    vector = _known_vector(view, use)
    if vector is not None:
        return vector
    fit = _one_line(view, use)
    return _either(view, use, _whole(view, fit)) if fit is not None and fit.exact else None


def nearly_whole_line(view: SampledTensors) -> Cause | None:
    """A gain or offset that all values have more or less: other rules may say more."""
    use = usable(view)
    fit = _one_line(view, use) if np.count_nonzero(use) >= _FEWEST else None
    nothing = fit is not None and fit.gain is not None and float(np.abs(fit.gain).max()) < NO_GAIN
    return None if fit is None or nothing else _either(view, use, _whole(view, fit))


def _one_line(view: SampledTensors, use: Mask) -> LineFit | None:
    fits = [fit for fit in line_fits(view, use, None) if fit.good]
    return simplest(view, fits) if fits and not _flat(fits) else None


def _either(view: SampledTensors, use: Mask, cause: Cause) -> Cause:
    """*cause*, less sure where all expected values are alike: a gain is an offset there."""
    if float(np.ptp(view.r[use])) > CLOSE * float(np.abs(view.r[use]).max()):
        return cause
    both = "; all expected values are alike, so a gain and an offset are the same here"
    return replace(cause, sentence=cause.sentence + both, confidence=min(cause.confidence, GUESS))


def affine(view: SampledTensors) -> Cause | None:
    """A gain or an offset of each channel or slice."""
    use = usable(view)
    if np.count_nonzero(use) < _FEWEST:
        return None
    for axis in view.axes():
        if view.d.shape[axis] < 2 or view.d.size / view.d.shape[axis] < 3:
            continue
        fits = [fit for fit in line_fits(view, use, axis) if fit.good]
        if fits:
            return _sliced(view, simplest(view, fits), axis)
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
                if not view.fits(view.r + sign * bias, use):
                    continue
                return Cause(
                    label,
                    f"bias {what} in all {vector.size} channels: the output is off by {name} "
                    f"(up to {float(np.abs(vector).max()):.3g})",
                    SURE if vector.size >= FEW else GUESS,
                    {"axis": axis, "bias": name, "factor": sign, "of": int(vector.size)},
                )
    return None


def _flat(fits: list[LineFit]) -> bool:
    """Whether the fit is a constant: then the output does not follow the reference at all."""
    gain = fits[0].gain
    both = gain is not None and fits[0].offset is not None
    return both and gain is not None and abs(float(gain.reshape(-1)[0])) < CLOSE


def _whole(view: SampledTensors, fit: LineFit) -> Cause:
    """The cause of one line for all values; where it leaves more than noise, the sentence says how
    far the values lie apart."""
    sure = SURE if view.d.size >= 4 * FEW else GUESS
    every, about, remainder = "every value is", "", ""
    if not fit.exact:
        sure = min(sure, LIKELY)
        every, about, remainder = "the values are", "about ", f" ({_apart(view, fit)})"
    evidence: dict[str, EvidenceValue] = {"left": fit.left}
    if fit.offset is not None:
        offset = float(fit.offset.reshape(-1)[0])
        evidence = {"offset": offset, **evidence}
    if fit.gain is None:
        same = "the same " if fit.exact else about
        return Cause(
            "global_offset",
            f"{every} off by {same}{offset:+.5g}{remainder}: a wrong zero point or constant "
            "operand",
            sure,
            evidence,
        )
    gain = float(fit.gain.reshape(-1)[0])
    times = f"{every} {about}{gain:.6g} times the expected one{'' if fit.exact else 's'}"
    if fit.offset is None:
        hint = _scale_hint(gain, view) if fit.exact else ""
        percent = f" ({100.0 * (gain - 1.0):+.3g} %)" if fit.exact else remainder
        return Cause(
            "gain", f"{times}{percent}: a wrong scale{hint}", sure, {"gain": gain, **evidence}
        )
    return Cause(
        "gain_and_offset",
        f"{times} {offset:+.5g}{remainder}: a wrong scale and zero point, or another function "
        "that is nearly linear here",
        min(sure, LIKELY),
        {"gain": gain, **evidence},
    )


def _apart(view: SampledTensors, fit: LineFit) -> str:
    """What one line for all values leaves: lines of their own for the slices of an axis, else the
    share of the error."""
    best, error_text = (
        _MOSTLY * fit.left,
        f"{share_text(round(1000 * fit.left), 1000)} of the error left",
    )
    use = usable(view)
    for axis in view.axes():
        for line_fit in line_fits(view, use, axis):
            numbers = line_fit.gain if line_fit.offset is None else line_fit.offset
            alike = (line_fit.gain is None, line_fit.offset is None) == (
                fit.gain is None,
                fit.offset is None,
            )
            if alike and numbers is not None and line_fit.left < best:
                best = line_fit.left
                error_text = f"{numbers.min():.4g} to {numbers.max():.4g}, by {_per(axis, view)}"
    return error_text


def _scale_hint(gain: float, view: SampledTensors) -> str:
    scales = {2.0: "2", 0.5: "1/2", -1.0: "the sign", 0.25: "1/4", 4.0: "4", 1 / 255: "1/255"}
    for value, word in scales.items():
        if abs(gain / value - 1.0) < 2e-3:
            return f" (exactly {word})"
    for size in sorted({size for array in view.case.inputs.values() for size in array.shape}):
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


def _sliced(view: SampledTensors, fit: LineFit, axis: int) -> Cause:
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
        if abs(middle) < NO_GAIN:
            return _next_to_nothing(view, fit, axis, np.arange(count))
        return Cause(
            "gain",
            f"the values are about {middle:.5g} times the expected ones ({gains.min():.4g} to "
            f"{gains.max():.4g}, by {_per(axis, view)}): a wrong scale{_norm_hint(view)}",
            LIKELY,
            {"gain": middle, "axis": axis, "left": fit.left},
        )
    hit = np.flatnonzero(off > max(CLOSE * float(off.max()), 2.0 * view.case.floor))
    if hit.size == 0 and fit.offset is not None:  # all gains are within the floor: offsets remain
        return _slice_offset(view, fit, axis)
    if hit.size == 0:
        hit = np.flatnonzero(off >= 0.5 * float(off.max()))
    where = slices_text(hit.tolist(), axis, view)
    if fit.offset is not None and float(np.abs(gains[hit]).max()) < NO_GAIN:
        return _constant_slices(view, fit, axis, hit)
    if fit.offset is None and float(np.abs(gains[hit]).max()) < NO_GAIN:
        return _next_to_nothing(view, fit, axis, hit)
    both = " and a constant away" if fit.offset is not None else ""
    name = _per(axis, view)
    what = f"a scale is wrong per {name}: {where} {'is' if hit.size == 1 else 'are'}"
    if hit.size == count:
        what = f"a scale is wrong per {name}: each of {count} is"
    smallest, largest = f"{float(gains[hit].min()):.5g}", f"{float(gains[hit].max()):.5g}"
    times = smallest if smallest == largest else f"{smallest} to {largest}"
    return Cause(
        "channel_gain",
        f"{what} {'' if fit.exact else 'about '}{times} times what is expected{both}"
        f"{_norm_hint(view)}",
        _slice_confidence(fit),
        {
            "axis": axis,
            "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
            "gains": [round(float(number), 6) for number in gains[hit][:_LISTED]],
            "left": fit.left,
        },
    )


def _next_to_nothing(view: SampledTensors, fit: LineFit, axis: int, hit: Places) -> Cause:
    """The cause where slices have almost nothing of what is expected, as their bias is small."""
    assert fit.gain is not None
    gains = fit.gain.reshape(-1)[hit]
    count = view.d.shape[axis]
    # Of a part all slices are wrong, and it is named already.
    where = slices_text(hit.tolist(), axis, view)
    where = f"each of {count} {slices_name(axis, view, count)}" if hit.size == count else where
    return Cause(
        "dead_channels",
        f"next to nothing of what is expected ({gains.min():.4g} to {gains.max():.4g} times) is "
        f"left in {where}: weights lost?",
        LIKELY,
        {
            "axis": axis,
            "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
            "gains": [round(float(number), 6) for number in gains[:_LISTED]],
            "left": fit.left,
        },
    )


def _per(axis: int, view: SampledTensors) -> str:
    name = slices_name(axis, view, 1)
    return name if name == "channel" else f"{name} of axis {axis}"


def _norm_hint(view: SampledTensors) -> str:
    norm = any("Norm" in op.type or "epsilon" in op.attrs for op in view.case.ops)
    return " (the norm's epsilon or variance?)" if norm else ""


def _constant_slices(view: SampledTensors, fit: LineFit, axis: int, hit: Places) -> Cause:
    """The cause where slices hold one value each: their weights are lost, the bias is left."""
    assert fit.offset is not None
    values = fit.offset.reshape(-1)[hit]
    where = slices_text(hit.tolist(), axis, view)
    return Cause(
        "dead_channels",
        f"{where}: one value throughout ({float(values.min()):.5g} to {float(values.max()):.5g}), "
        "whatever is expected; the others are right: weights lost, with the bias left?",
        _slice_confidence(fit),
        {
            "axis": axis,
            "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
            "values": [round(float(number), 6) for number in values[:_LISTED]],
            "left": fit.left,
        },
    )


def _slice_offset(view: SampledTensors, fit: LineFit, axis: int) -> Cause:
    assert fit.offset is not None
    offsets = fit.offset.reshape(-1)
    largest = float(np.abs(offsets).max())
    enough = max(CLOSE * largest, 3.0 * view.noise / float(np.sqrt(max(fit.per_slice, 1.0))))
    hit = np.flatnonzero(np.abs(offsets) > enough)
    if hit.size == 0:
        hit = np.array([int(np.argmax(np.abs(offsets)))])
    where = slices_text(hit.tolist(), axis, view)
    evidence: dict[str, EvidenceValue] = {
        "axis": axis,
        "slices": (hit * view.steps[axis]).tolist()[:_LISTED],
        "of": int(offsets.size),
        "offsets": [float(f"{number:.5g}") for number in offsets[hit][:_LISTED]],
        "left": fit.left,
    }
    for name, bias in _vectors(view, axis):
        factor = _factor(offsets[hit], bias[hit])
        if factor is None:
            continue
        smallest = float(np.abs(offsets[hit]).min())
        values = (
            f"{smallest:.3g}"
            if f"{smallest:.3g}" == f"{largest:.3g}"
            else f"{smallest:.3g} to {largest:.3g}"
        )
        what, label = ("missing", "lost_bias") if factor < 0 else ("added twice", "doubled_bias")
        return Cause(
            label,
            f"bias {what} in {where}: each is off by {'' if fit.exact else 'about '}its value of "
            f"{name} ({values})",
            _slice_confidence(fit),
            {**evidence, "bias": name, "factor": factor},
        )
    about = "up to" if fit.exact else "about"
    return Cause(
        "channel_offset",
        f"a constant per channel is off in {where} (by {about} {largest:.4g}, "
        f"{counted(hit.size, 'channel')} of {offsets.size}), the rest is right: a lost bias or "
        "wrong zero point",
        _slice_confidence(fit),
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
        if rms(offsets - factor * bias) <= LEFT * rms(bias):
            return factor
    return None


def _slice_confidence(fit: LineFit) -> float:
    if fit.exact and fit.per_slice >= 4 * FEW:
        return SURE
    return LIKELY if fit.per_slice >= FEW else GUESS


CAUSES = (
    CauseRule(
        whole_line,
        CauseStage.LINE,
        10,
        dict.fromkeys(("gain", "global_offset", "gain_and_offset"), LIKELY),
        of_a_part=True,
    ),
    CauseRule(nearly_whole_line, CauseStage.LINE, 28, of_a_part=True),
    CauseRule(
        affine,
        CauseStage.LINE,
        30,
        {
            "doubled_bias": SURE,
            **dict.fromkeys(("lost_bias", "channel_gain", "channel_offset"), LIKELY),
        },
        of_a_part=True,
    ),
)
