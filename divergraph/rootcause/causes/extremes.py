"""Values cut off at a limit, or rounded to a grid."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import ALL, LIKELY, POINTS, SURE
from divergraph.rootcause.causes.words import share_text
from divergraph.text.words import counted
from graphstore.model import DType

_MOSTLY = 0.5
"""The share of cut values that lie at the limit itself."""
_MOST_LEVELS = 512
"""Levels of a grid that are looked at one by one; quantisers of up to 8 bits have fewer."""
_MOST_BITS = 16
"""Quantisers have no more; sums of integers lie on finer grids."""
_MOST_FREQUENCIES = 6000
"""Steps of a grid that are tried. Bounds cost."""
_BLOCK = 80
"""So many of them at once: about the root of their number, since blocks and places within them
cost the same."""
_TELLING = 200
"""With fewer elements errors of any kind may look even."""
_RESOLVED = 0.6
"""How sharply values must lie on a grid: 1 exactly, 0 not at all."""

_CHANCE = 20
"""Of so many values a wrong one is the largest by chance once in 20 times."""
_FEWEST_WRAPPED = 3
_INSIDE_RANGE = 0.02
"""How far wrapped values may lie inside the range of the others, as a share of that range."""


def saturation(view: SampledTensors) -> Cause | None:
    """Right values, except those beyond an upper (or lower) limit, which sit at the limit."""
    if view.d.size < 4:
        return None
    high, low = float(view.d.max()), float(view.d.min())
    over = (view.r > high) & (view.r - high > _slack(view, high))
    under = (view.r < low) & (low - view.r > _slack(view, low))
    cut: Mask = over | under
    count = int(np.count_nonzero(cut))
    if not count or count > 0.6 * cut.size or view.share(cut) < ALL:
        return None
    cuts = [(limit, hit) for limit, hit in ((low, under), (high, over)) if hit.any()]
    if any(rms(view.d[hit] - limit) > 0.1 * rms(view.e[hit]) for limit, hit in cuts):
        return None
    # Most of these values must sit at the limit, not only the worst of them.
    free = np.concatenate([np.abs(view.d[hit] - limit) for limit, hit in cuts])
    slack = max(_slack(view, high), _slack(view, low))
    if np.mean(free <= slack + 0.01 * (high - low)) <= _MOSTLY:
        return None
    if low == 0.0 and under.any() and not over.any():
        return None  # only negative values are cut: that is a wrong activation
    bound_text = _known(high, low, over, under)
    if count == 1 and not bound_text and view.d.size < _CHANCE:
        return None  # of few values one that is wrong often is the largest
    limits = " and ".join(f"{limit:.6g}" for limit, _ in cuts)
    verb = "is" if count == 1 else "are"
    return Cause(
        "saturation",
        f"{counted(count, 'value')} ({share_text(count, cut.size)}) {verb} cut off at {limits}; "
        f"up to {float(np.abs(view.r[cut]).max()):.4g} is expected{bound_text}",
        SURE if count >= _FEWEST_WRAPPED else LIKELY,
        {
            "cut": count,
            "high": high if over.any() else None,
            "low": low if under.any() else None,
            "largest_expected": float(np.abs(view.r[cut]).max()),
        },
    )


def _slack(view: SampledTensors, limit: float) -> float:
    return max(2.0 * view.noise, 4.0 * view.unit * abs(limit))


def _known(high: float, low: float, over: Mask, under: Mask) -> str:
    if over.any() and abs(high / float(np.finfo(np.float16).max) - 1.0) < 1e-3:
        return " (the largest float16)"
    if over.any() and abs(high - 6.0) < 1e-2 and low >= 0.0:
        return " (a Relu6?)"
    if over.any() and under.any() and high > 0 and abs(low / high + 128 / 127) < 4e-3:
        return " (an int8 range)"
    return ""


def quantised_grid(view: SampledTensors) -> Cause | None:
    """The device's values lie on an even grid, the expected ones do not."""
    alive = (view.d != 0.0) & (view.wrong | (np.abs(view.r) > view.tolerance))
    if np.count_nonzero(alive) < 48:
        return None
    d, r = _some(view.d[alive]), _some(view.r[alive])
    spread = float(d.max() - d.min())
    few = _few_levels(d)
    seen = None if few is None else _grid(view, few, r, _sharpness(d, 1.0 / few), spread)
    if seen is not None:
        return seen
    # Errors of rounding to a grid are uniform from -step/2 to step/2: their RMS is step / sqrt(12).
    guess = rms(view.e[alive]) * float(np.sqrt(12.0))
    if spread <= 3.0 * guess or guess <= 0.0:
        return None
    step, sharpness = _step(d, guess, spread)
    return _grid(view, step, r, sharpness, spread)


def _grid(
    view: SampledTensors, step: float, r: Floats, sharpness: float, spread: float
) -> Cause | None:
    unsharp = _sharpness(r, 1.0 / step)
    bounded = float(np.mean(np.abs(view.e) <= 0.6 * step + view.tolerance))
    if sharpness < _RESOLVED or unsharp > 0.6 * sharpness or bounded < 0.97:
        return None
    levels = spread / step
    bits = int(np.ceil(np.log2(levels + 1)))
    if bits > _MOST_BITS:
        return None
    return Cause(
        "quantised_grid",
        f"the values lie on a grid of step {step:.4g}, about {levels:.0f} levels ({bits} bits); "
        "the expected ones do not: the output was quantised",
        SURE if sharpness > 0.8 else LIKELY,
        {"step": step, "levels": round(levels), "bits": bits, "sharpness": sharpness},
    )


def _few_levels(values: Floats) -> float | None:
    """The step of a grid of few levels, from the levels themselves; None if there are too many."""
    levels = np.unique(values)
    if not 3 <= levels.size <= min(_MOST_LEVELS, values.size // 4):
        return None
    gaps = np.diff(levels)
    # Once rounded to float16, one level may appear as several close ones.
    gaps = gaps[gaps > 0.2 * float(np.median(gaps))]
    return float(gaps.min())


def _step(values: Floats, guess: float, spread: float) -> tuple[float, float]:
    """The grid's step near *guess*, and how sharply the values lie on it (0 to 1)."""
    low, high, spacing = 0.55 / guess, 1.9 / guess, 0.12 / spread
    # Counted before they are made: a wide range with small errors would ask for billions.
    if high - low > _MOST_FREQUENCIES * spacing:
        frequencies = np.linspace(0.85 / guess, 1.2 / guess, _MOST_FREQUENCIES)
    else:
        frequencies = np.arange(low, high, spacing)
    thin = values[:: max(1, values.size // 2000)]
    best = float(frequencies[int(np.argmax(_sharpnesses(thin, frequencies)))])
    fine = best + np.linspace(-0.15, 0.15, 61) / spread
    sharp = [_sharpness(values, frequency) for frequency in fine]
    place = int(np.argmax(sharp))
    return 1.0 / float(fine[place]), sharp[place]


def _sharpnesses(values: Floats, frequencies: Floats) -> Floats:
    """The sharpness at each of evenly spaced *frequencies*: the turns within a block of them are
    the same for all blocks, so they are computed once."""
    within = frequencies[:_BLOCK] - frequencies[0]
    turns = np.exp(2j * np.pi * np.outer(within, values))
    starts = np.exp(2j * np.pi * np.outer(values, frequencies[::_BLOCK]))
    return np.asarray(np.abs(turns @ starts).T.ravel()[: frequencies.size], np.float64)


def _sharpness(values: Floats, frequency: float) -> float:
    return float(np.abs(np.exp(2j * np.pi * frequency * values).mean()))


def rounding(view: SampledTensors) -> Cause | None:
    """Values rounded to a coarser float type, or errors that look like rounding to fewer bits."""
    coarser = _coarser_type(view)
    if coarser is not None:
        return coarser
    seen = np.abs(view.r) > 1e-6 * view.size
    if np.count_nonzero(seen) < _TELLING:
        return None  # over a few values errors of any kind may look even
    relative = np.abs(view.e[seen]) / np.abs(view.r[seen])
    middle, high = (float(np.quantile(relative, part)) for part in (0.5, 0.99))
    if middle <= 0.0 or high > 4.5 * middle or high > 0.1:
        return None
    drift = abs(float(np.mean(np.sign(view.e[seen] * view.r[seen]))))
    if drift > 0.2:
        return None
    digits = -np.log2(max(high, 1e-12)) - 1.0
    return Cause(
        "rounding",
        f"every value is off by at most {high:.2g} of itself, to either side, like rounding to "
        f"{digits:.0f} bits",
        LIKELY,
        {"median_relative": middle, "p99_relative": high, "drift": drift},
    )


def _coarser_type(view: SampledTensors) -> Cause | None:
    device = np.asarray(view.case.device).reshape(-1)[:100_000]
    if device.dtype.kind != "f" or device.size < 16:
        return None
    single = np.ascontiguousarray(device, np.float32)
    bits = single.view(np.uint32)
    if not (bits & np.uint32(0xFFFF)).any():
        name, unit = "bfloat16", 2.0**-8
    elif not (bits & np.uint32(0x1FFF)).any():
        name, unit = "TF32", 2.0**-11
    else:
        return None
    if name == "bfloat16" and view.case.dtype is DType.BFLOAT16:
        return None
    if name == "TF32" and view.case.dtype in (DType.FLOAT16, DType.BFLOAT16, None):
        return None
    if float(np.mean(np.abs(view.e) <= 1.1 * unit * np.abs(view.r) + view.tolerance)) < 0.99:
        return None
    return Cause(
        "rounding",
        f"every value is a {name} number, next to the expected one: rounded to {name}",
        SURE,
        {"type": name, "unit": unit},
    )


def _some(values: Floats) -> Floats:
    return values[:: max(1, values.size // POINTS)]


def wrapped_around(view: SampledTensors) -> Cause | None:
    """Exactly the values beyond a range are off, by whole multiples of that range."""
    if view.d.size < 16:
        return None
    low, high = float(view.d.min()), float(view.d.max())
    size = high - low
    slack = _INSIDE_RANGE * size
    outside = (view.r > high - slack) | (view.r < low + slack)
    over = outside & (np.abs(view.e) > 0.5 * size)
    count = int(np.count_nonzero(over))
    if count < _FEWEST_WRAPPED or count > 0.5 * over.size:
        return None
    period = float(np.median(np.abs(view.e[over])))
    turns = np.round(view.e / period) if abs(period / size - 1.0) < 0.1 else None
    if turns is None or not view.fits(view.r + turns * period):
        return None
    if np.any(turns[~outside]) or np.any(turns * np.sign(view.r - (low + high) / 2) > 0):
        return None
    return Cause(
        "wrapped_around",
        f"{counted(count, 'value')} ({share_text(count, over.size)}) outside {low:.4g} to "
        f"{high:.4g} came out {period:.4g} away, at the other end: they wrapped around, as an "
        "integer of too few bits does",
        SURE if count >= 2 * _FEWEST_WRAPPED else LIKELY,
        {"period": period, "wrapped": count, "low": low, "high": high},
    )


CAUSES = (
    CauseRule(wrapped_around, CauseStage.FUNCTION, 40, {"wrapped_around": LIKELY}),
    CauseRule(saturation, CauseStage.FUNCTION, 50, {"saturation": LIKELY}, of_a_part=True),
    CauseRule(quantised_grid, CauseStage.PART, 20, {"quantised_grid": LIKELY}, of_a_part=True),
    CauseRule(rounding, CauseStage.VAGUE, 50, {"rounding": SURE}),
)
