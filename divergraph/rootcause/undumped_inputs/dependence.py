"""Whether right parts of an output clear the input: they read what the wrong ones read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.undumped_inputs.readers import Reader

_BLOCKS = 12
"""Parts of each axis of the input that are changed in turn, at first. Bounds cost."""
_RIGHT = 3.0
"""Noise up to which elements are right, on average over a slice."""
_FEWEST, _SHARE = 4, 0.1
"""So many elements beside wrong ones, and this share of all there, are not right by chance."""
_HALF = 0.5
_CHANGED = 1e-4
"""The least change of an output that is not the order of a sum."""


def clears_input(readers: Sequence[Reader]) -> bool:
    """Whether no change of the input makes what is wrong wrong and leaves what is right as it is.

    An op whose channels are right but for one was not fed other numbers, since all channels read
    the same; of a batch whose first item alone is wrong the first item may have been another.
    """
    if any(_is_cleared(reader) for reader in readers if reader.is_wrong):
        return True
    right = [reader for reader in readers if not reader.is_wrong]
    wrong = [reader for reader in readers if reader.is_wrong]
    return any(_outweighs(one, other) for one in right for other in wrong)


def is_elementwise(readers: Sequence[Reader]) -> bool:
    """Whether one op reads the input, each number of which makes one of the output: then any output
    is that of some input."""
    if len(readers) > 1 or readers[0].reference.size != readers[0].golden.size:
        return False
    golden = readers[0].golden
    some = np.random.default_rng(0).random(golden.size) < _HALF
    other = np.where(some.reshape(golden.shape), np.roll(golden, 1) + 1, golden)
    (made,) = readers[0].outputs([other])
    if made is None:
        return False
    return not bool((made != readers[0].reference).reshape(-1)[~some].any())


def _outweighs(right: Reader, wrong: Reader) -> bool:
    """Whether any part of the input that the *wrong* reader depends on moves the *right* one."""
    for axis in range(wrong.golden.ndim):
        parts = _parts(wrong, axis)
        seen = _changed(wrong, axis, parts), _changed(right, axis, parts)
        if any(one.any() and not other.any() for one, other in zip(*seen, strict=True)):
            return False
    return True


def _is_cleared(reader: Reader) -> bool:
    """Whether the slices of some axis of the output clear the input."""
    device, reference = (x.astype(np.float64) for x in (reader.device, reader.reference))
    usual = float(np.sqrt(np.mean(_squares(reference))))
    bounds = _RIGHT * reader.noise * np.maximum(np.abs(reference), usual or 1.0)
    apart = _squares((device - reference) / bounds)
    telling = (device != 0.0) | (reference != 0.0)  # what was cut off to 0 on both sides is not
    (other,) = reader.outputs([_other(reader.golden)])
    moved = apart if other is None else _squares((other - reference) / bounds)
    for axis in range(reference.ndim):
        others = tuple(each for each in range(reference.ndim) if each != axis)
        # What is right elsewhere may have been fed right; what is right beside what is wrong not.
        near = telling & (apart > _RIGHT**2).any(axis=axis, keepdims=True)
        count = near.sum(axis=others)
        off, could_be = ((each * near).sum(axis=others) for each in (apart, moved))
        # Between the two a slice says nothing: an input in other steps is off by little everywhere.
        wrong = off > _RIGHT**2 * count
        # Nor does one of small weights, which an input that gives the wrong ones hardly moves.
        beyond = (could_be[wrong] / off[wrong]).max(initial=0.0)
        right = (off <= count) & (could_be > beyond * _RIGHT**2 * count)
        by_chance = count[right].sum() < max(_FEWEST, _SHARE * count.sum())
        if wrong.any() and not by_chance and not _may_be_fed(reader, others, right, wrong):
            return True
    return False


def _may_be_fed(reader: Reader, others: tuple[int, ...], right: Array, wrong: Array) -> bool:
    """Whether parts of the input that move no *right* slice move all *wrong* ones.

    A part that moves both is halved: only its end may have been fed otherwise.
    """
    for axis in range(reader.golden.ndim):
        parts, fed = _parts(reader, axis), np.zeros_like(wrong)
        while parts:
            changed = _changed(reader, axis, parts)
            moved = np.stack([each.any(axis=others) for each in changed])
            free = ~moved[:, right].any(axis=1)
            fed |= moved[free].any(axis=0)
            if fed[wrong].all():
                return True
            mixed = np.flatnonzero(~free & (moved & wrong & ~fed).any(axis=1))
            wide = (parts[at] for at in mixed.tolist() if parts[at].size > 1)
            parts = [half for part in wide for half in np.array_split(part, 2)]
    return False


def _parts(reader: Reader, axis: int) -> list[Array]:
    """Indices of an axis of the input, in a few parts."""
    size = reader.golden.shape[axis]
    return np.array_split(np.arange(size), min(_BLOCKS, size))


def _changed(reader: Reader, axis: int, parts: Sequence[Array]) -> list[Array]:
    """By part of the input along *axis*: where the output is another if that part is."""
    outputs = reader.outputs(list(_altered(reader.golden, axis, parts)))
    usual = np.sqrt(np.mean(_squares(reader.reference)))
    nowhere = np.zeros(reader.reference.shape, np.bool_)
    return [
        nowhere if each is None else np.abs(each - reader.reference) > _CHANGED * usual
        for each in outputs
    ]


def _altered(golden: Array, axis: int, parts: Sequence[Array]) -> Iterator[Array]:
    """*golden* with other numbers in one part after the other."""
    other = _other(golden)
    for part in parts:
        index = (slice(None),) * axis + (part,)
        altered = golden.copy()
        altered[index] = other[index]
        yield altered


def _other(golden: Array) -> Array:
    """Other numbers in all places."""
    rng = np.random.default_rng(0)
    if golden.dtype.kind != "f":
        return rng.permutation(golden.reshape(-1)).reshape(golden.shape)
    usual = float(np.sqrt(np.mean(_squares(golden)))) or 1.0
    return golden + usual * rng.normal(size=golden.shape)


def _squares(values: Array) -> Array:
    found: Array = np.square(values.astype(np.float64))
    return np.where(np.isfinite(found), found, 0.0)
