"""What a call keeps, whatever the values: checked by the statistics of a dump alone.

The extremes of an increasing function are the function of the extremes, the mean of a sum is the
sum of the means, a softmax has the mean ``1 / length``, what is only moved keeps all. A broken law
convicts the call. A kept one acquits none. A call of which a statistic is missing, or is not
finite, or whose kind has no law, cannot be told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from graphstore.model import UNIT_ROUNDOFF, DType, DumpFormat, DumpTensorRef, Op, TensorIO
from importers.dumps.index import TensorKey
from importers.msprobe.graph import ARGUMENTS

ADDED = 16 * UNIT_ROUNDOFF[DType.FLOAT32]
"""By how much sums in float32 are off, relative to the size of what is added up."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of a tensor that a call of ``rank`` reads or makes; ``unit`` is the rounding
    of its type, in which the statistics are written, too."""

    rank: int
    count: int
    maximum: float
    minimum: float
    mean: float
    norm: float
    unit: float
    checksum: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> float:
        """The root mean square."""
        return self.norm / math.sqrt(self.count)

    @property
    def largest(self) -> float:
        """The largest value by size."""
        return max(abs(self.maximum), abs(self.minimum))

    @property
    def mark(self) -> tuple[float | str, ...]:
        """What is equal if the values are."""
        return self.checksum or "", self.maximum, self.minimum, self.mean, self.norm

    @property
    def written(self) -> float:
        """By how much a mean is off as it is written: added up in float32, rounded to its type, in
        float16 to no less than its least number."""
        return self.unit * abs(self.mean) + ADDED * self.size + self.least

    @property
    def least(self) -> float:
        """The least number of float16, halved; nothing of other types."""
        return 2.0**-25 if self.unit == UNIT_ROUNDOFF[DType.FLOAT16] else 0.0


def summary_of(ref: DumpTensorRef | None, rank: int = 0) -> Summary | None:
    """The statistics of a dumped tensor; None where it has none, or one of them is not finite."""
    statistics = None if ref is None else ref.statistics
    if ref is None or statistics is None or not statistics.count:
        return None
    numbers = statistics.maximum, statistics.minimum, statistics.mean, statistics.norm
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    if len(finite) < len(numbers):
        return None
    maximum, minimum, mean, norm = finite
    unit = UNIT_ROUNDOFF.get(ref.dtype or DType.FLOAT32, 0.0)
    return Summary(
        rank, statistics.count, maximum, minimum, mean, norm, unit, statistics.checksum,
        tuple(ref.shape or ()),
    )  # fmt: skip


_ROUNDINGS = 4.0
"""Roundings of an extreme: of what a function reads, inside and of what it gives."""
_APPROXIMATE = 2.0**-10
"""The relative error of functions that a device approximates, and of sums in fewer bits."""
_MEAN = 2.0
"""Roundings of a mean relative to the size of what is added up; they could all have one sign."""
_FLUSHED = 2.0**-14
"""The least normal number of float16: what is smaller may be zero. Second moments of Adam are."""
Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class StatisticBounds:
    """Between which numbers the statistics of an output are; None where nothing tells. ``element``
    is the size of the values they follow from, ``size`` its root mean square."""

    maximum: Range | None = None
    minimum: Range | None = None
    mean: Range | None = None
    norm: Range | None = None
    element: float = 0.0
    size: float = 0.0


class GivenCall:
    """A call with the statistics of what it took and gave.

    Raises:
        UntoldError: by what asks for a statistic or an argument that the dump does not have.
    """

    def __init__(self, op: Op, tensors: Mapping[TensorKey, DumpTensorRef]) -> None:
        places = op.attrs.get(ARGUMENTS, ())
        self.op = op
        self._ports = {str(at): port for port, at in enumerate(_listed(places))}
        self._tensors = tensors

    def tensor(self, at: int, keyword: str = "input") -> Summary:
        """The statistics of a tensor it took."""
        port = self._ports.get(str(at), self._ports.get(keyword))
        return _needed(None if port is None else self._read(TensorIO.INPUT, port))

    def list(self, at: int, keyword: str = "tensors") -> Sequence[Summary]:
        """Those of a list of tensors."""
        begins = f"{at}.", f"{keyword}."
        ports = [port for place, port in self._ports.items() if place.startswith(begins)]
        return [_needed(self._read(TensorIO.INPUT, port)) for port in ports]

    def has(self, at: int, keyword: str) -> bool:
        """Whether it was given a tensor there."""
        return str(at) in self._ports or keyword in self._ports

    def operand(self, at: int, keyword: str = "other") -> Summary:
        """A tensor, or a number as one."""
        return self.tensor(at, keyword) if self.has(at, keyword) else _of(self.number(at, keyword))

    def number(self, at: int, keyword: str, default: float | None = None) -> float:
        """A number among its arguments."""
        value = self.op.attrs.get(f"input.{at}", self.op.attrs.get(f"input.{keyword}", default))
        if not isinstance(value, int | float):
            raise UntoldError
        return float(value)

    def axis(self, at: int, keyword: str = "dim", default: int | None = None) -> int:
        """The length of the axis of the first tensor that it works along."""
        port = self._ports.get("0", self._ports.get("input"))
        ref = None if port is None else self._tensors.get((self.op.id, TensorIO.INPUT, port))
        if ref is None or ref.shape is None:
            raise UntoldError
        shape = ref.shape
        number = int(self.number(at, keyword, default))
        if not -len(shape) <= number < len(shape):
            raise UntoldError
        return shape[number]

    def outputs(self) -> Sequence[Summary]:
        """The statistics of all it made."""
        ports = range(len(self.op.outputs))
        return [_needed(self._read(TensorIO.OUTPUT, port)) for port in ports]

    def _read(self, io: TensorIO, port: int) -> Summary | None:
        ref = self._tensors.get((self.op.id, io, port))
        return summary_of(ref) if ref is not None and ref.format is DumpFormat.STATISTICS else None


class UntoldError(Exception):
    """The dump does not have what a law needs."""


_Law: TypeAlias = Callable[[GivenCall, Summary], StatisticBounds]
LAWS: dict[str, _Law] = {}
"""By the plain name of a call what its first output is bound by."""
_OF_ALL: set[str] = set()
"""The names whose law holds for all outputs together."""


def law(*names: str, of_all: bool = False) -> Callable[[_Law], _Law]:
    """Put the decorated law into the table under *names*."""

    def put(bounds_of: _Law) -> _Law:
        LAWS.update(dict.fromkeys(names, bounds_of))
        _OF_ALL.update(names if of_all else ())
        return bounds_of

    return put


def plain_name(kind: str) -> str:
    """``add`` of ``__iadd__``, ``add_`` and ``add``."""
    name = kind.strip("_")
    if not kind.startswith("__"):
        return name
    inner = name[1:] if name[:1] == "i" and name[1:] in _IN_PLACE else name
    return {"truediv": "div"}.get(inner, inner)


_IN_PLACE = frozenset({"add", "sub", "mul", "truediv", "div"})


def broken_law(op: Op, tensors: Mapping[TensorKey, DumpTensorRef]) -> str:
    """Which law *op*, a call, breaks by its statistics among *tensors*, as a sentence; empty where
    it keeps them, or nothing tells."""
    name = plain_name(op.type)
    bound = LAWS.get(name)
    if bound is None or op.attrs.get("direction") != "forward" or not op.outputs:
        return ""
    call = GivenCall(op, tensors)
    try:
        outputs = call.outputs()
        output = joined(outputs) if name in _OF_ALL else outputs[0]
        bounds = bound(call, output)
    except (UntoldError, OverflowError, ValueError, ZeroDivisionError):  # or outside its domain
        return ""
    return next(_broken(bounds, output), "")


def _broken(bounds: StatisticBounds, output: Summary) -> Iterator[str]:
    unit = output.unit
    flushed = _FLUSHED if output.least else 0.0
    element = (_ROUNDINGS * unit + _APPROXIMATE) * bounds.element + flushed
    mean = (_MEAN * unit + _APPROXIMATE / 4) * bounds.size + output.written + flushed
    norm = (_ROUNDINGS * unit + _APPROXIMATE) * bounds.size + flushed
    norm *= math.sqrt(output.count)
    for word, range_, value, allowed in (
        ("largest value", bounds.maximum, output.maximum, element),
        ("least value", bounds.minimum, output.minimum, element),
        ("mean", bounds.mean, output.mean, mean),
        ("norm", bounds.norm, output.norm, norm),
    ):
        if range_ is not None and not range_[0] - allowed <= value <= range_[1] + allowed:
            yield f"the {word} of its output is {value:.4g}; of what it reads it is {_text(range_)}"


def _text(range_: Range) -> str:
    low, high = range_
    if low == high:
        return f"{low:.4g}"
    if math.isinf(low):
        return f"{high:.4g} at most"
    return f"{low:.4g} at least" if math.isinf(high) else f"{low:.4g} to {high:.4g}"


# statistics of several tensors


def joined(parts: Sequence[Summary]) -> Summary:
    """The statistics of all *parts* together."""
    if not parts:
        raise UntoldError
    count = sum(part.count for part in parts)
    return replace(
        parts[0],
        count=count,
        maximum=max(part.maximum for part in parts),
        minimum=min(part.minimum for part in parts),
        mean=sum(part.mean * part.count for part in parts) / count,
        norm=math.sqrt(sum(part.norm**2 for part in parts)),
        unit=max(part.unit for part in parts),
    )


def spread(tensor: Summary, count: int) -> Summary:
    """The statistics of *tensor* repeated to *count* elements, as broadcasting does."""
    norm = tensor.norm * math.sqrt(count / tensor.count)
    return replace(tensor, count=count, norm=norm)


def times(tensor: Summary, factor: float) -> Summary:
    """Those of *tensor* times a number."""
    ends = sorted((tensor.maximum * factor, tensor.minimum * factor))
    return replace(
        tensor, maximum=ends[1], minimum=ends[0], mean=tensor.mean * factor,
        norm=tensor.norm * abs(factor),
    )  # fmt: skip


def same(tensor: Summary) -> StatisticBounds:
    """What has the statistics of *tensor*."""
    return StatisticBounds(
        _exactly(tensor.maximum), _exactly(tensor.minimum), _exactly(tensor.mean),
        _exactly(tensor.norm), tensor.largest, tensor.size,
    )  # fmt: skip


def among(tensor: Summary) -> StatisticBounds:
    """What has only values of *tensor*, or between them."""
    inside = (tensor.minimum, tensor.maximum)
    return StatisticBounds(inside, inside, element=tensor.largest)


def total(one: Summary, other: Summary, count: int) -> StatisticBounds:
    """A sum of two tensors, spread to *count* elements."""
    one, other = spread(one, count), spread(other, count)
    largest = max(one.maximum + other.minimum, one.minimum + other.maximum)
    least = min(one.maximum + other.minimum, one.minimum + other.maximum)
    return StatisticBounds(
        (largest, one.maximum + other.maximum),
        (one.minimum + other.minimum, least),
        _exactly(one.mean + other.mean),
        (abs(one.norm - other.norm), one.norm + other.norm),
        one.largest + other.largest,
        one.size + other.size,
    )


def with_zero(tensor: Summary) -> Summary:
    """*tensor* with zeros beside its values."""
    return replace(tensor, maximum=max(tensor.maximum, 0.0), minimum=min(tensor.minimum, 0.0))


def _of(number: float) -> Summary:
    if not math.isfinite(number):
        raise UntoldError
    return Summary(0, 1, number, number, number, abs(number), 0.0, "")


def _exactly(value: float) -> Range:
    return value, value


def _needed(summary: Summary | None) -> Summary:
    if summary is None:
        raise UntoldError
    return summary


def _listed(places: object) -> tuple[object, ...]:
    return places if isinstance(places, tuple) else ()
