"""Where the values of one rank's tensor lie in golden's."""

from __future__ import annotations

from itertools import product

import numpy as np

from divergraph.layouts.rule import rules
from divergraph.layouts.shares import AxisShare, Runs, runs_of
from divergraph.values.array_types import Array

_SIXTEEN_BITS = ("bfloat16", "float16")


def located(
    own: Array, golden: Array, shares: tuple[AxisShare, ...] = ()
) -> dict[int, Runs] | None:
    """By axis the ranges of *golden* that *own* is, value for value; empty where it is all of it,
    None where its values do not say. Either may be the other rounded to 16 bits.

    One axis is looked up by hashes of its rows, so the rows may be any, as the heads of a fused
    weight are; of several axes the *shares* are tried, then what rules say.
    """
    if own.ndim != golden.ndim or own.size == 0:
        return None
    axes = [axis for axis in range(own.ndim) if own.shape[axis] != golden.shape[axis]]
    if any(own.shape[axis] > golden.shape[axis] for axis in axes):
        return None
    pairs = [(own, rounded) for rounded in roundings(own, golden)]
    pairs += [(rounded, golden) for rounded in roundings(golden, own)]
    for part, whole in pairs:
        if not axes:
            if np.array_equal(part, whole):
                return {}
            continue
        runs = _looked_up(part, whole, axes[0]) if len(axes) == 1 else None
        if runs is None:
            runs = _tried(part, whole, axes, shares)
        if runs is not None:
            return runs
    return None


def cut(values: Array, runs: dict[int, Runs]) -> Array:
    """The part of *values* that *runs* says, by axis."""
    for axis, ranges in runs.items():
        places = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        values = values.take(places, axis)
    return values


def roundings(own: Array, golden: Array) -> list[Array]:
    """*golden* in the types that *own* may have been rounded to, as it has that type or float32."""
    if golden.dtype.kind != "f" or own.dtype.kind != "f":
        return [golden]
    import ml_dtypes  # only where real numbers are looked up

    same = golden.astype(own.dtype)
    kinds = [np.dtype(getattr(ml_dtypes, name, None) or name) for name in _SIXTEEN_BITS]
    with np.errstate(over="ignore"):
        return [same, *(golden.astype(kind).astype(own.dtype) for kind in kinds)]


def _looked_up(own: Array, golden: Array, axis: int) -> dict[int, Runs] | None:
    """The rows of *golden* along *axis* that those of *own* are. Of rows alike any may be meant:
    one that follows the row before, or a chunk if all are alike."""
    rows: dict[bytes, list[int]] = {}
    for place, row in enumerate(rows_of(golden, axis)):
        rows.setdefault(row.tobytes(), []).append(place)
    places: list[int] = []
    unsure = 0
    for row in rows_of(own, axis):
        fitting = rows.get(row.tobytes())
        if fitting is None:
            return None
        following = places[-1] + 1 if places else -1
        unsure += len(fitting) > 1 and following not in fitting
        places.append(following if following in fitting else fitting[0])
    return None if unsure or len(set(places)) < len(places) else {axis: runs_of(places)}


def rows_of(values: Array, axis: int) -> Array:
    """*values* as rows along *axis*."""
    return np.ascontiguousarray(np.moveaxis(values, axis, 0)).reshape(values.shape[axis], -1)


def _by_rules(golden_length: int, length: int) -> list[Runs]:
    """The ways in which rules give a rank *length* places of *golden_length*."""
    return [runs for rule in rules() for runs in rule.parts(golden_length, length)]


def _tried(
    own: Array, golden: Array, axes: list[int], shares: tuple[AxisShare, ...]
) -> dict[int, Runs] | None:
    choices = []
    for axis in axes:
        length = golden.shape[axis]
        shared = [runs for share in shares if (runs := share.of(length)) is not None]
        choices.append(list(dict.fromkeys((*shared, *_by_rules(length, own.shape[axis])))))
    for chosen in product(*choices):
        by_axis = dict(zip(axes, chosen, strict=True))
        part = cut(golden, by_axis)
        if part.shape == own.shape and np.array_equal(part, own):
            return by_axis
    return None


def distance(own: Array, golden: Array) -> float:
    """How far *own* is from *golden*, as a share of it; infinite where the shapes differ."""
    if own.shape != golden.shape:
        return np.inf
    with np.errstate(all="ignore"):
        ours, theirs = np.asarray(own, np.float64), np.asarray(golden, np.float64)
        apart = np.linalg.norm((ours - theirs)[np.isfinite(ours) & np.isfinite(theirs)])
        return float(apart / (np.linalg.norm(theirs[np.isfinite(theirs)]) or 1.0))
