"""How much worse than the right choice another one is, by the kind of op that chooses.

A :class:`Margin` is measured in the scores the op chooses by. It is 0 where both choices are as
good, infinite where the choice is none the op can make, NaN where it is not defined what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import Op


@dataclass(frozen=True, slots=True)
class Scores:
    """What an op chooses by (float64): ``value``, and by how much ``noise`` may have moved it."""

    value: Array
    noise: Array


@dataclass(frozen=True, slots=True)
class Margin:
    """By element of the choices: the ``gap`` between the scores of the right and of the given
    choice, and the ``noise`` of both scores together (float64)."""

    gap: Array
    noise: Array


MarginOf: TypeAlias = "Callable[[Op, Sequence[Scores], Array, Array], Margin | None]"
"""Gives the margin of an op's choices: (op, scores, right choices, given choices) -> margin; None
where the op's attributes leave open what it chooses."""


def _of_extreme(op: Op, scores: Sequence[Scores], right: Array, dumped: Array) -> Margin | None:
    """Of an index of the largest or smallest element along an axis."""
    score = scores[0]
    axis = _axis(op, scores, 0 if "axis" not in op.attrs and len(scores) < 2 else None)
    if axis is None or not -score.value.ndim <= axis < score.value.ndim:
        return None
    sign = -1.0 if op.type.startswith("ArgMin") else 1.0
    value, noise = (np.moveaxis(array, axis, -1) for array in (score.value, score.noise))
    if right.size != value.size // max(value.shape[-1], 1):
        return None
    return _chosen(sign * value, noise, *(x.reshape(*value.shape[:-1], 1) for x in (right, dumped)))


def _of_largest(op: Op, scores: Sequence[Scores], right: Array, dumped: Array) -> Margin | None:
    """Of the indices of the k largest or smallest elements along an axis."""
    score, axis = scores[0], op.attrs.get("axis", -1)
    if not isinstance(axis, int) or right.ndim != score.value.ndim:
        return None
    sign = 1.0 if op.attrs.get("largest", 1) else -1.0
    value, noise, best, own = (
        np.moveaxis(array, axis, -1) for array in (score.value, score.noise, right, dumped)
    )
    if best.shape[:-1] != value.shape[:-1]:
        return None
    margin = _chosen(sign * value, noise, best, own)
    if not op.attrs.get("sorted", 1):  # any order of the right ones is right
        last = _chosen(sign * value, noise, best[..., -1:].repeat(best.shape[-1], -1), own)
        margin = Margin(np.where(np.isin(own, best), 0.0, last.gap), last.noise)
    # The same element twice leaves out one that should be there.
    order = np.argsort(own, axis=-1, kind="stable")
    ordered = np.take_along_axis(own, order, -1)
    again = np.zeros(own.shape, np.bool_)
    np.put_along_axis(again, order[..., 1:], ordered[..., 1:] == ordered[..., :-1], -1)
    gap = np.where(again & (own != best), np.inf, margin.gap)
    return Margin(np.moveaxis(gap, -1, axis), np.moveaxis(margin.noise, -1, axis))


def _chosen(value: Array, noise: Array, right: Array, dumped: Array) -> Margin:
    """The margin of *dumped* numbers of elements of the last axis in place of the *right* ones."""
    count = value.shape[-1]
    rounded = np.rint(
        np.nan_to_num(np.asarray(dumped, np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0)
    )
    none = (rounded != dumped) | (rounded < 0) | (rounded >= count)
    own = np.where(none, 0, rounded).astype(np.int64)
    best = np.asarray(right, np.int64)
    with np.errstate(invalid="ignore"):
        gap = np.abs(np.take_along_axis(value, best, -1) - np.take_along_axis(value, own, -1))
    both = np.take_along_axis(noise, best, -1) + np.take_along_axis(noise, own, -1)
    return Margin(np.where(none, np.inf, gap), both)


def _axis(op: Op, scores: Sequence[Scores], usual: int | None) -> int | None:
    """The axis of an attribute, or of a second input."""
    attr = op.attrs.get("axis", op.attrs.get("dimension", usual))
    if attr is None and len(scores) > 1 and scores[1].value.size == 1:
        return int(scores[1].value.reshape(-1)[0])
    return attr if isinstance(attr, int) else None


def _of_comparison(_: Op, scores: Sequence[Scores], right: Array, dumped: Array) -> Margin | None:
    """Of a comparison of two numbers: how far apart they are."""
    try:
        one, other, _right = np.broadcast_arrays(scores[0].value, scores[1].value, right)
    except (IndexError, ValueError):
        return None
    with np.errstate(invalid="ignore"):
        gap = np.abs(one - other)
    noise = np.broadcast_to(scores[0].noise, gap.shape) + scores[1].noise
    return Margin(gap, noise) if gap.shape == right.shape == dumped.shape else None


def _of_cast(_: Op, scores: Sequence[Scores], right: Array, dumped: Array) -> Margin | None:
    """Of a number without its fraction: how far it is from the next whole one; of a boolean: from
    zero. What is not finite has no whole number."""
    value = scores[0].value
    if value.shape != right.shape:
        return None
    with np.errstate(invalid="ignore"):
        if right.dtype.kind == "b":
            gap = np.abs(value)
        else:
            steps = np.abs(np.asarray(dumped, np.float64) - right)
            gap = np.abs(value - np.rint(value)) + np.maximum(steps - 1.0, 0.0)
    return Margin(np.where(np.isfinite(value), gap, np.nan), scores[0].noise)


MARGINS: Mapping[str, MarginOf] = {
    **dict.fromkeys(("ArgMax", "ArgMin", "ArgMaxV2"), _of_extreme),
    **dict.fromkeys(("TopK", "TopKV2"), _of_largest),
    **dict.fromkeys(
        (
            *("Greater", "GreaterOrEqual", "GreaterEqual", "Less", "LessOrEqual", "LessEqual"),
            *("Equal", "NotEqual"),
        ),
        _of_comparison,
    ),
    "Cast": _of_cast,
}
"""By op type how good its choices are."""
