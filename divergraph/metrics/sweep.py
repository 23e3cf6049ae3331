"""Sweeps over tensor pairs, block by block, in buffers that stay in the processor's cache.

Adding a pass over a block costs a few percent of the whole, so what follows from numbers already
computed (equality, zeros, the worst element) takes no pass of its own, and blocks that are equal,
or have no element over the tolerance, skip the passes they do not need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from divergraph.metrics.flat import Flat, blocks
from divergraph.metrics.native_values import own_block
from divergraph.metrics.reductions import dot, summed
from divergraph.metrics.second_pass import KEPT, PIECE, Second, count_bad, distribute, folded_second
from divergraph.metrics.sums import EPSILON, NO_SECOND, SecondSums, SideSums, Sums, Worst, combine
from divergraph.values.array_types import Array, Float32, Float64

BLOCK = 131_072
"""Elements in a block: with fewer the calls cost more, and more do not fit the cache (measured)."""

WIDE_SPREAD = 0.01
"""Where the squared spread is at least this part of the squared mean, the difference of the two
sums keeps 13 digits and the values need no second pass."""

_WHOLE_IN_FLOAT32 = 2**24
"""Integers up to this are float32 values."""


class Sweeper:
    """Walks tensor pairs in blocks with one set of temporaries.

    Arrays are flat, of one length > 0, of bool, integer or real elements. A part of a
    tensor is swept with *start*, its place in the whole. Not to be shared between threads.
    """

    def __init__(self, size: int = BLOCK) -> None:
        self._block = size
        self._room = 0

    def both(
        self, device: Flat, golden: Flat, ask: Callable[[Sums], Second | None]
    ) -> tuple[Sums, SecondSums]:
        """The sums of both sweeps, the second only if *ask* says what for; faster than one
        after the other, as the second knows of each block what the first saw."""
        seen: list[Seen] = []
        with np.errstate(all="ignore"):
            sums = self._first(device, golden, seen)
            second = ask(sums)
            if second is None:
                return sums, NO_SECOND
            return sums, self._second(device, golden, second, seen)

    def first_blocks(self, device: Flat, golden: Flat, start: int = 0) -> Iterator[Sums]:
        """The sums of one sweep block by block: those of parts whose places are multiples
        of :data:`BLOCK` are those of the whole."""
        self._reserve(len(device))
        for begin, x, y in blocks(self._block, device, golden):
            with np.errstate(all="ignore"):
                result = self._first_block(x, y, start + begin)
            yield result

    def second_blocks(
        self, device: Flat, golden: Flat, second: Second, seen: Sequence[Seen], start: int = 0
    ) -> Iterator[SecondSums]:
        """The sums of the second sweep block by block, of which the first saw *seen*."""
        self._reserve(len(device))
        for number, (begin, x, y) in enumerate(blocks(self._block, device, golden)):
            with np.errstate(all="ignore"):
                result = self._second_block(x, y, second, start + begin, seen[number], False)
            yield result

    def _first(self, device: Flat, golden: Flat, seen: list[Seen]) -> Sums:
        if len(device) <= self._block:
            self._reserve(len(device))
            result = self._first_block(device[:], golden[:], 0)
            seen.append(seen_of(result))
            return result
        return folded(self.first_blocks(device, golden), seen)

    def _second(self, device: Flat, golden: Flat, second: Second, seen: list[Seen]) -> SecondSums:
        if len(device) <= self._block:
            # The buffers still hold the only block, unless it was equal.
            loaded = seen[0][0] > 0.0
            return self._second_block(device[:], golden[:], second, 0, seen[0], loaded)
        return folded_second(self.second_blocks(device, golden, second, seen))

    def _reserve(self, length: int) -> None:
        room = min(length, self._block)
        if room <= self._room:
            return
        self._room = room
        self._x, self._y, self._error, self._ratio = (np.empty(room) for _ in range(4))
        self._flags = np.empty(room, np.bool_)

    def _first_block(self, device: Array, golden: Array, start: int) -> Sums:
        x32, y32 = _float32(device), _float32(golden)
        count = len(x32)
        flags = self._flags[:count]
        low_x, high_x = x32.item(x32.argmin()), x32.item(x32.argmax())
        low_y, high_y = y32.item(y32.argmin()), y32.item(y32.argmax())
        if not math.isfinite(low_x + high_x + low_y + high_y):
            if count > PIECE:
                # Most pieces have no NaN, and several passes over a small piece are cheap.
                return combine(list(self._pieces(device, golden, start)))
            return self._odd_block(device, golden, x32, y32, start)
        equal = int(np.count_nonzero(np.equal(x32, y32, out=flags)))
        x, y = self._x[:count], self._y[:count]
        np.copyto(y, y32)
        side_y = self._side(y, low_y, high_y)
        if equal == count:
            result = _equal_block(count, side_y, self._zeros(y32, low_y, high_y))
        else:
            np.copyto(x, x32)
            result = self._unlike_block(x, y, (x32, low_x, high_x), (y32, side_y), equal, start)
        # Values equal as float32 are equal as float64, so one buffer serves both.
        if _narrow(device, x32, y if equal == count else x) and _narrow(golden, y32, y):
            return result
        return _with_own(result, device, golden, start)

    def _pieces(self, device: Array, golden: Array, start: int) -> Iterator[Sums]:
        for begin in range(0, len(device), PIECE):
            end = begin + PIECE
            yield self._first_block(device[begin:end], golden[begin:end], start + begin)

    def _unlike_block(
        self,
        x: Float64,
        y: Float64,
        device: tuple[Float32, float, float],
        golden: tuple[Float32, SideSums],
        equal: int,
        start: int,
    ) -> Sums:
        count = len(x)
        error = np.subtract(x, y, out=self._error[:count])
        square_error = dot(error, error)
        np.abs(error, out=error)
        absolute = summed(error)
        place = int(error.argmax())
        size = error.item(place)
        ratio = np.abs(y, out=self._ratio[:count])
        smallest = ratio.item(ratio.argmin())
        if smallest <= EPSILON:
            # A golden value that counts as zero divides as infinity.
            ratio[ratio <= EPSILON] = math.inf
        np.divide(error, ratio, out=ratio)
        x32, low, high = device
        y32, side_y = golden
        return Sums(
            count,
            # From here on the buffer of the errors is free.
            self._side(x, low, high),
            side_y,
            dot(x, y),
            square_error,
            absolute,
            size,
            summed(ratio),
            ratio.item(ratio.argmax()),
            0,
            equal,
            self._zeros(x32, low, high),
            0 if smallest > 0.0 else self._zeros(y32, side_y.low, side_y.high),
            Worst(size, start + place, x.item(place), y.item(place)),
        )

    def _side(self, values: Float64, low: float, high: float) -> SideSums:
        total, square = summed(values), dot(values, values)
        mean = total / len(values)
        level = mean * total
        spread = square - level
        if spread < WIDE_SPREAD * level:
            centred = np.subtract(values, mean, out=self._error[: len(values)])
            spread = dot(centred, centred)
        return SideSums(total, square, spread, low, high)

    def _zeros(self, values: Float32, low: float, high: float) -> int:
        if low > 0.0 or high < 0.0:
            return 0
        flags = np.equal(values, 0.0, out=self._flags[: len(values)])
        return int(np.count_nonzero(flags))

    def _odd_block(
        self, device: Array, golden: Array, x32: Float32, y32: Float32, start: int
    ) -> Sums:
        """A block with NaN or infinities: the formulas as they stand."""
        x, y = x32.astype(np.float64), y32.astype(np.float64)
        error = x - y
        absolute = np.abs(error)
        # A NaN golden counts as zero.
        relative = np.where(np.abs(y) > EPSILON, np.abs(x / y - 1.0), 0.0)
        finite = np.isfinite(x) & np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        result = Sums(
            len(x),
            _odd_side(x),
            _odd_side(y),
            dot(x, y),
            dot(error, error),
            float(np.add.reduce(absolute)),
            float(np.maximum.reduce(absolute)),
            float(np.add.reduce(relative)),
            float(np.maximum.reduce(relative)),
            int(np.count_nonzero(~finite & ~same)),
            0,
            0,
            0,
            None,
        )
        return _with_own(result, device, golden, start)

    def _second_block(
        self, device: Array, golden: Array, second: Second, start: int, seen: Seen, loaded: bool
    ) -> SecondSums:
        bad, first_bad = 0, -1
        if seen[0] > second.atol:
            bad, first_bad = count_bad(device, golden, second, start)
        if second.scales is None:
            return SecondSums(math.nan, math.nan, math.nan, bad, first_bad)
        count = len(device)
        p, q = self._x[:count], self._y[:count]
        if not loaded:
            np.copyto(p, _float32(device))
            np.copyto(q, _float32(golden))
        device_sum = distribute(p, second.scales[0], seen[1], seen[2])
        golden_sum = distribute(q, second.scales[1], seen[3], seen[4])
        ratio = np.divide(p, q, out=q)
        np.log(ratio, out=ratio)
        return SecondSums(device_sum, golden_sum, dot(p, ratio), bad, first_bad)


Seen = tuple[float, float, float, float, float]
"""What the first sweep saw of a block: the largest error, lowest value and mean of both sides."""


def folded(records: Iterable[Sums], seen: list[Seen]) -> Sums:
    """The sums of blocks, combined in their order; what was seen of each is appended to *seen*."""
    done: list[Sums] = []
    for record in records:
        seen.append(seen_of(record))
        done.append(record)
        if len(done) == KEPT:
            done = [combine(done)]
    return combine(done)


def seen_of(sums: Sums) -> Seen:
    """What the second sweep needs to know of a block."""
    device, golden, count = sums.device, sums.golden, sums.elements
    size = sums.worst.size if sums.worst is not None else 0.0
    return size, device.low, device.total / count, golden.low, golden.total / count


def _equal_block(count: int, side: SideSums, zeros: int) -> Sums:
    zero = 0.0
    return Sums(
        count, side, side, side.square, zero, zero, zero, zero, zero, 0, count, zeros, zeros, None
    )


def _with_own(sums: Sums, device: Array, golden: Array, start: int) -> Sums:
    own = own_block(device, golden, start)
    return sums._replace(
        equal=own.equal,
        device_zeros=own.device_zeros,
        golden_zeros=own.golden_zeros,
        worst=own.worst,
        own=own.sums,
    )


def _narrow(values: Array, cast: Float32, widened: Float64) -> bool:
    """True if *cast*, the values as float32, is exact; *widened* is *cast* as float64."""
    kind, width = values.dtype.kind, values.dtype.itemsize
    if width < 4 or values is cast or kind == "b":
        return True
    if kind in "iu":
        low, high = int(values.min()), int(values.max())
        return max(-low, high) <= _WHOLE_IN_FLOAT32
    return bool(np.array_equal(values, widened))


def _odd_side(values: Float64) -> SideSums:
    nans = int(np.count_nonzero(np.isnan(values)))
    infinities = int(np.count_nonzero(np.isinf(values)))
    low, high = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
    total, square = float(np.add.reduce(values)), dot(values, values)
    if nans or infinities:
        return SideSums(total, square, math.nan, low, high, nans, infinities)
    centred = values - total / len(values)
    return SideSums(total, square, dot(centred, centred), low, high)


def _float32(values: Array) -> Float32:
    return values if values.dtype == np.float32 else values.astype(np.float32)
