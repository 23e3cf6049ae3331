"""Whether any input at all makes what a reader put out, by least squares; which tokens do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.undumped_inputs.readers import Reader

_MOST_UNKNOWN = 1200
"""Elements of the input that are solved for: of a larger image a part. Bounds cost, by the cube."""
_LONG = 4
"""Axes of more indices are cut to such a part; channels are not."""
_AT_ONCE = 64
_LINEAR = 1e-3
"""What a reader may be off from a linear one, of its change: float32 leaves 1e-5."""
_SMALLEST = 1e-6
"""Singular values below this share of the largest are rounding of float32."""
_DETERMINED = 0.1
"""The least share of equations beyond the unknowns that can contradict a solution."""
_MOST_TOKENS = 1 << 18


class Exists(Enum):
    """Whether there is an input that makes an output."""

    YES = "yes"
    """And there are more equations than unknowns: no other explanation is as good."""
    NO = "no"
    UNKNOWN = "unknown"
    """There is always one, or it cannot be solved for."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer, and the whole input in golden's shape where it could be solved for. ``suspicion``
    is what the nearest input leaves, in the reader's noise: infinite where none was looked for."""

    exists: Exists
    values: Array | None = None
    suspicion: float = np.inf


def solved(reader: Reader) -> Solution:
    """The input of a *reader*, as far as its output tells it."""
    if reader.golden.dtype.kind in "iu":
        return _tokens(reader)
    if reader.golden.dtype.kind != "f" or not np.isfinite(reader.device).all():
        return Solution(Exists.UNKNOWN)
    for part in _parts(reader.golden):
        found = _of_part(reader, part)
        if found.exists is not Exists.UNKNOWN:
            return found
    return Solution(Exists.UNKNOWN)


def _parts(golden: Array) -> Iterator[tuple[slice, ...]]:
    """Parts of the input of at most 1200 elements: all of it, or from the middle of its last axes,
    the others whole but for the batch."""
    if golden.size <= _MOST_UNKNOWN:
        yield (slice(None),) * golden.ndim
        return
    sizes = [1 if axis == 0 and golden.ndim > 1 else size for axis, size in enumerate(golden.shape)]
    long = [axis for axis, size in enumerate(sizes) if size > _LONG]
    while prod(sizes) > _MOST_UNKNOWN and long:
        longest = max(long, key=lambda axis: sizes[axis])
        if sizes[longest] <= _LONG:
            return
        sizes[longest] -= 1
    if prod(sizes) > _MOST_UNKNOWN:
        return
    for share in (0.5, 0.25, 0.0):
        starts = [int(share * (n - m)) for n, m in zip(golden.shape, sizes, strict=True)]
        yield tuple(slice(at, at + m) for at, m in zip(starts, sizes, strict=True))


def _of_part(reader: Reader, part: tuple[slice, ...]) -> Solution:
    """Whether numbers in *part* of the input make the outputs that depend on nothing else."""
    golden = reader.golden.astype(np.float64)
    inside = np.zeros(golden.shape, np.bool_)
    inside[part] = True
    usual = float(np.sqrt(np.mean(np.square(golden)))) or 1.0
    rng = np.random.default_rng(0)
    noise = usual * rng.normal(size=golden.shape)
    inner, outer = np.where(inside, noise, 0.0), np.where(inside, 0.0, noise)
    made = reader.before_cut([golden, golden + outer, golden + inner, golden - inner])
    if any(each is None for each in made):
        return Solution(Exists.UNKNOWN)
    base, elsewhere, more, less = (np.asarray(each, np.float64) for each in made)
    scale = float(np.sqrt(np.mean(np.square(more - base)))) or 1.0
    own = (np.abs(elsewhere - base) <= _SMALLEST * scale) & (np.abs(more - base) > 0.0)
    use = own & reader.known
    bent = np.abs(more + less - 2 * base)[use]
    if not bent.size or float(np.sqrt(np.mean(np.square(bent)))) > _LINEAR * scale:
        return Solution(Exists.UNKNOWN)
    places = np.flatnonzero(inside)
    slopes = _slopes(reader, golden, places, usual, use)
    if slopes is None:
        return Solution(Exists.UNKNOWN)
    rest = reader.device.astype(np.float64)[use] - base[use]
    squares = slopes.T @ slopes
    sizes, ways = np.linalg.eigh(squares)
    kept = sizes > sizes[-1] * _SMALLEST
    rank = int(np.count_nonzero(kept))
    along = ways[:, kept]
    found = along @ ((along.T @ (slopes.T @ rest)) / sizes[kept])
    freedom = rest.size - rank
    if freedom < _DETERMINED * rest.size:
        return Solution(Exists.UNKNOWN)
    moved = slopes @ found
    left = float(np.linalg.norm(rest - moved)) / np.sqrt(freedom)
    # Noise grows with what is computed, not with what golden computed.
    noisy = reader.solved_noise * float(np.sqrt(np.mean(np.square(base[use] + moved))))
    # Each slope is a difference of two outputs in float32, which are rounded.
    rounded = float(np.finfo(np.float32).eps) * float(np.linalg.norm(found)) / usual
    noisy += rounded * float(np.sqrt(np.mean(np.square(base[use]))))
    suspicion = left / noisy if noisy else np.inf
    if suspicion > calibration.SUSPECT:
        return Solution(Exists.NO, None, suspicion)
    whole = golden.copy()
    whole.reshape(-1)[places] += found
    return Solution(Exists.YES, whole if inside.all() else None, suspicion)


def _slopes(reader: Reader, golden: Array, places: Array, usual: float, use: Array) -> Array | None:
    """How the outputs in *use* change with each number of the input at *places*."""
    columns: list[Array] = []
    base = reader.before_cut([golden])[0]
    assert base is not None
    for start in range(0, places.size, _AT_ONCE):
        inputs = []
        for place in places[start : start + _AT_ONCE]:
            moved = golden.copy()
            moved.reshape(-1)[place] += usual
            inputs.append(moved)
        for made in reader.before_cut(inputs):
            if made is None:
                return None
            columns.append((made[use].astype(np.float64) - base[use]) / usual)
    return np.stack(columns, axis=1)


def _tokens(reader: Reader) -> Solution:
    """The integers by which a reader looked rows up: to each place the one whose row is nearest."""
    golden, device = reader.golden, reader.device
    count = _rows(reader)
    if not count or golden.size == 0 or device.size % golden.size:
        return Solution(Exists.UNKNOWN)
    if device.shape[: golden.ndim] != golden.shape:
        return Solution(Exists.UNKNOWN)
    width = device.size // golden.size
    runs = -(-count // golden.size)
    if runs * golden.size > _MOST_TOKENS:
        return Solution(Exists.UNKNOWN)
    numbers = np.arange(runs * golden.size) % count
    # What a place adds by itself, such as its position, is the same for each number.
    first, *made = reader.outputs(
        [np.full_like(golden, numbers[0]), *numbers.reshape(runs, *golden.shape)]
    )
    if first is None or any(each is None for each in made):
        return Solution(Exists.UNKNOWN)
    own = first.reshape(golden.size, width).astype(np.float64)
    table = np.concatenate([np.asarray(each).reshape(golden.size, width) - own for each in made])
    wanted = device.reshape(golden.size, width) - own
    near = -2.0 * wanted @ table.T + np.square(table).sum(axis=1)
    values = numbers[near.argmin(axis=1)].reshape(golden.shape).astype(golden.dtype)
    right = reader.suspicion(reader.outputs([values])[0]) <= calibration.SUSPECT
    return Solution(Exists.YES, values) if right else Solution(Exists.NO)


def _rows(reader: Reader) -> int:
    """The length of the table whose rows the reader looks up by the input; 0 if it does not."""
    graph = reader.run.golden
    sizes = {each.tensor.name: each.tensor.shape for each in graph.graph.constants}
    for op_id in reader.group.ops:
        op = graph.ops[op_id]
        if op.type not in ("Gather", "GatherV2", "ResourceGather", "EmbeddingLookup"):
            continue
        shapes = [sizes.get(ref.tensor) for ref in op.inputs if ref is not None]
        if shapes and shapes[0]:
            return int(shapes[0][0] or 0)
    return 0
