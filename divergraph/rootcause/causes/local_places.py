"""Errors confined to a part of the output, and what the values are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage, rules_of_a_part
from divergraph.rootcause.causes.evidence import Array, Cause, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import ALL, ENOUGH, FEW, LIKELY, PART, SURE
from divergraph.rootcause.causes.line_fits import wrong_slices
from divergraph.rootcause.causes.words import ranges_text, share_text, slices_text
from divergraph.text.words import counted
from graphstore.model import EvidenceValue

_MOST = 0.5
"""The largest share of an output that counts as a part of it, and of the slices of a short axis."""
_LEAST = 4
"""Of fewer values one is not few."""
_PAIR = 2
_SINGLE = 8
"""Up to so many wrong values are reported one by one."""
_LANES = (4, 8, 16, 32, 64)
"""Widths of vector units."""
_MOST_LANES = 2
_WIDEST_BORDER = 3
"""Wider borders are not looked for: pads and windows seldom are."""
_MUCH = 0.8
"""The share of slices that a part of them must hold for the slices to be named."""
_GROWN = 1.3
"""How much a trimmed range may grow to take in the wrong elements next to it."""


@dataclass(frozen=True)
class _Part:
    """A part of the output: its label, the words for where it is, and the values on both sides."""

    label: str
    where: str
    elements: Array
    """The device's values in the part (a tensor where the part is one), then the expected ones."""
    expected: Array
    evidence: dict[str, EvidenceValue]
    sure: float
    hint: str = ""

    @property
    def size(self) -> int:
        """Its elements."""
        return int(self.elements.size)


def few_values(view: SampledTensors) -> Cause | None:
    """A few single values are far off, all others are right."""
    if view.d.size < _LEAST or view.sampled or view.energy == 0.0:
        return None
    energies = np.square(view.e).reshape(-1)
    limit = min(_SINGLE, view.d.size)
    worst = np.argpartition(energies, -limit)[-limit:]
    worst = worst[np.argsort(energies[worst])[::-1]]
    shares = np.cumsum(energies[worst]) / view.energy
    count = int(np.searchsorted(shares, ALL)) + 1
    if count > max(1, min(limit, view.d.size // 64)):
        return None
    numbers = np.sort(worst[:count])
    rest = np.delete(view.e.reshape(-1), numbers)
    if rms(rest) > max(2.0 * view.noise, 0.01 * view.size):
        return None
    places = [tuple(map(int, np.unravel_index(number, view.d.shape))) for number in numbers]
    got, want = view.d.reshape(-1)[numbers], view.r.reshape(-1)[numbers]
    listed = ", ".join(
        f"{value:.5g} at {list(place)} ({right:.5g} expected)"
        for place, value, right in list(zip(places, got, want, strict=True))[:3]
    )
    return Cause(
        "few_values",
        f"only {counted(count, 'value')} of {view.d.size} {'is' if count == 1 else 'are'} "
        f"wrong: {listed}{', ...' if count > 3 else ''}: {_guess(view, numbers)}?",
        SURE,
        {"places": [list(place) for place in places], "values": got.tolist(), "of": view.d.size},
    )


def _guess(view: SampledTensors, numbers: Array) -> str:
    """What may have made a few wrong values, in words."""
    d, r = view.d.reshape(-1)[numbers], view.r.reshape(-1)[numbers]
    exchanged = rms(d - r[::-1]) <= 2.0 * max(view.noise, view.case.floor * rms(d))
    if numbers.size == _PAIR and exchanged:
        return "the two are exchanged, perhaps the weights that make them"
    return "a flipped bit, or a value written by another op"


def wrong_part(view: SampledTensors) -> Cause | None:
    """Nearly all of the error is in a part of the output; other rules may explain that part."""
    part = None if view.energy == 0.0 else _part(view)
    if part is None:
        return None
    inner = _inside(view, part)
    if inner is None and part.label == "wrong_region" and len(view.case.ops) > 1:
        return None  # where the error comes out says little of where in the group it was made
    share = share_text(part.elements.size, view.d.size)
    if inner is None:
        return Cause(
            part.label,
            f"all of the error is in {part.where} ({share} of the output); the rest is right"
            f"{part.hint}",
            min(part.sure, LIKELY),  # it says where, not what
            part.evidence,
        )
    return Cause(
        part.label if part.label == "wrong_border" else inner.label,
        f"only {part.where} ({share} of the output) {_verb(part.where)} wrong: {inner.sentence}",
        min(part.sure, inner.confidence),
        {**inner.evidence, **part.evidence},
    )


def _verb(where: str) -> str:
    return "is" if where.startswith(("channel ", "slice ", "every ", "the ")) else "are"


def _inside(view: SampledTensors, part: _Part) -> Cause | None:
    """What is wrong within the part, judged as a tensor of its own."""
    if part.elements.size < ENOUGH:
        return None
    inner = view.of_part(part.elements, part.expected)
    causes = (rule(inner) for rule in rules_of_a_part())
    return next((cause for cause in causes if cause is not None), None)


def _part(view: SampledTensors) -> _Part | None:
    """The smallest of the possible parts that hold the error; None if there is none. Slices are
    preferred to a part of them that is not much smaller: noise hides where the part ends."""
    slices = list(_slices(view))
    parts = [*slices, *_stretch(view), *_box(view), *_lanes(view), *_frame(view)]
    smallest = min(parts, key=lambda part: part.elements.size, default=None)
    much_smaller = [
        slice_part for slice_part in slices if smallest and _MUCH * slice_part.size <= smallest.size
    ]
    return min(much_smaller, key=lambda part: part.size, default=smallest)


def _slices(view: SampledTensors) -> Iterator[_Part]:
    for axis in view.axes():
        length = view.d.shape[axis]
        if length < 4 or view.d.size // length < 2:
            continue
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        energies = np.sum(view.e**2, axis=rest)
        order = np.argsort(energies)[::-1]
        shares = np.cumsum(energies[order]) / energies.sum()
        needed = int(np.searchsorted(shares, ALL)) + 1
        few = max(1, int((_MOST if length < FEW else PART) * length))
        # All slices with an error, if they are few: small ones may be dead as well as large ones.
        wrong = wrong_slices(view, axis)
        needed = wrong.size if needed < wrong.size <= few else needed
        numbers = np.sort(order[:needed])
        if needed > few or not _others_right(view, axis, numbers):
            continue
        border = _border(numbers, length) and axis != view.axes()[0]
        evidence: dict[str, EvidenceValue] = {
            "axis": axis,
            "slices": (numbers * view.steps[axis]).tolist()[:64],
            "of": length,
            "energy_share": float(shares[needed - 1]),
        }
        yield _Part(
            "wrong_border" if border else "wrong_channels",
            slices_text(numbers.tolist(), axis, view),
            np.take(view.d, numbers, axis=axis),
            np.take(view.r, numbers, axis=axis),
            evidence,
            SURE if not border and view.d.size // length >= FEW else LIKELY,
            ", which is the border: wrong pads or window edges?" if border else "",
        )


def _stretch(view: SampledTensors) -> Iterator[_Part]:
    """A contiguous range in memory."""
    if view.sampled:
        return
    energies = np.square(view.e).reshape(-1)
    first, last = _grown(_trimmed(energies), view.wrong.reshape(-1))
    inside = slice(first, last)
    if not _is_part(view, last - first) or not _solid(view, energies[inside]):
        return
    ends = "" if last < view.d.size else ", the end of it"
    yield _Part(
        "wrong_region",
        f"elements {first} to {last - 1} in memory{ends}",
        view.d.reshape(-1)[inside],
        view.r.reshape(-1)[inside],
        {"first": first, "last": last - 1, "of": view.d.size},
        SURE,
        ": a tile or the end of a loop?",
    )


def _box(view: SampledTensors) -> Iterator[_Part]:
    """The smallest box of indices that holds the error."""
    if view.sampled or view.d.ndim < 2:
        return
    ranges = []
    for axis in range(view.d.ndim):
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        trimmed = _trimmed(np.sum(view.e**2, axis=rest))
        ranges.append(_grown(trimmed, np.asarray(view.wrong.any(axis=rest))))
    box = tuple(slice(first, last) for first, last in ranges)
    inside = view.e[box]
    if not _is_part(view, inside.size) or float(np.sum(inside**2)) < ALL * view.energy:
        return
    said = [
        f"{first} to {last - 1} of axis {axis}" if last - first > 1 else f"{first} of axis {axis}"
        for axis, (first, last) in enumerate(ranges)
        if last - first < view.d.shape[axis]
    ]
    if len(said) < 2 or not _solid(view, np.square(inside).reshape(-1)):
        return  # slices of a single axis, or elements far apart
    yield _Part(
        "wrong_region",
        f"the block of indices {', '.join(said)}",
        view.d[box],
        view.r[box],
        {"box": [[first, last - 1] for first, last in ranges]},
        SURE,
        ": a tile?",
    )


def _lanes(view: SampledTensors) -> Iterator[_Part]:
    """Every n-th value in memory, as one lane of a vector unit computes them."""
    energies = np.square(view.e).reshape(-1)
    if view.sampled or energies.size < 8 * _LANES[-1]:
        return
    lanes_found: list[tuple[float, int, Array]] = []
    for lanes in _LANES:
        size = energies.size - energies.size % lanes
        sums = energies[:size].reshape(-1, lanes).sum(axis=0)
        hit = np.flatnonzero(sums > 0.01 * sums.max())
        if 0 < hit.size <= min(_MOST_LANES, lanes // 4) and sums[hit].sum() >= ALL * view.energy:
            lanes_found.append((hit.size / lanes, lanes, hit))
    if not lanes_found:
        return
    _, lanes, hit = min(lanes_found, key=lambda entry: entry[:2])
    chosen = np.flatnonzero(np.isin(np.arange(energies.size) % lanes, hit))
    if not _solid(view, energies[chosen]):
        return
    yield _Part(
        "wrong_region",
        f"every {lanes}th value in memory, from {ranges_text(hit.tolist())} on",
        view.d.reshape(-1)[chosen],
        view.r.reshape(-1)[chosen],
        {"lanes": hit.tolist(), "of": lanes},
        SURE,
        ": one lane of a vector?",
    )


def _frame(view: SampledTensors) -> Iterator[_Part]:
    """The border of the last two axes, where pads and window edges act."""
    axes = range(max(view.d.ndim - 2, 1), view.d.ndim)
    if view.sampled or any(view.d.shape[axis] < 8 for axis in axes) or view.d.ndim < 3:
        return
    for wide in range(1, _WIDEST_BORDER + 1):
        inner: Mask = np.zeros(view.d.shape, bool)
        middle: list[slice] = [slice(None)] * view.d.ndim
        for axis in axes:
            middle[axis] = slice(wide, -wide)
        inner[tuple(middle)] = True
        energy_outside = float(np.sum(view.e[~inner] ** 2))
        if energy_outside < ALL * view.energy or np.mean(~inner) > _MOST:
            continue
        yield _Part(
            "wrong_border",
            f"the border, {wide} wide, of axes {' and '.join(map(str, axes))}",
            view.d[~inner],
            view.r[~inner],
            {"width": wide, "axes": list(axes), "energy_share": energy_outside / view.energy},
            LIKELY,
            ": wrong pads or window edges",
        )
        return


def _trimmed(energies: Array) -> tuple[int, int]:
    """The shortest range outside of which each end holds at most 1 % of the error."""
    cumulated = np.cumsum(energies)
    cut = 0.5 * (1.0 - ALL) * float(cumulated[-1])
    first = int(np.searchsorted(cumulated, cut, side="right"))
    last = int(np.searchsorted(cumulated, float(cumulated[-1]) - cut)) + 1
    return first, last


def _grown(span: tuple[int, int], wrong: Mask) -> tuple[int, int]:
    """A trimmed range, grown to take in all wrong elements unless these reach far."""
    numbers = np.flatnonzero(wrong)
    if not numbers.size:
        return span
    first, last = min(span[0], int(numbers[0])), max(span[1], int(numbers[-1]) + 1)
    return (first, last) if last - first <= _GROWN * (span[1] - span[0]) else span


def _is_part(view: SampledTensors, size: int) -> bool:
    return ENOUGH <= size <= _MOST * view.d.size


def _solid(view: SampledTensors, energies: Array) -> bool:
    """Whether most elements of a part are wrong, not only a few far apart."""
    return float(np.mean(energies > max(4.0 * view.noise, 1e-7 * view.size) ** 2)) > 0.5


def _others_right(view: SampledTensors, axis: int, wrong: np.ndarray) -> bool:
    """Whether the other slices are right relative to their own size, and not merely small."""
    error = np.delete(view.e, wrong, axis=axis)
    expected = np.delete(view.r, wrong, axis=axis)
    bad = rms(np.take(view.e, wrong, axis=axis)) / (rms(np.take(view.r, wrong, axis=axis)) or 1.0)
    relative = rms(error) / (rms(expected) or 1.0)
    return relative <= max(3.0 * view.case.floor, 0.03 * bad)


def _border(numbers: np.ndarray, length: int) -> bool:
    distances = np.minimum(numbers, length - 1 - numbers)
    return length >= 8 and bool((distances < max(2, numbers.size)).all()) and numbers.size <= 4


CAUSES = (
    CauseRule(few_values, CauseStage.PART, 10, {"few_values": LIKELY}),
    CauseRule(
        wrong_part,
        CauseStage.PART,
        30,
        dict.fromkeys(("wrong_border", "wrong_channels", "wrong_region"), LIKELY),
    ),
)
