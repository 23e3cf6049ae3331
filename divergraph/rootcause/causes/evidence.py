"""What is known of one tensor with an introduced error, and how rules look at it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from graphstore.model import AttrValue, DType, Evidence, EvidenceValue, Op

T = TypeVar("T")
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rerun: TypeAlias = Callable[[Op, Mapping[str, AttrValue]], "Array | None"]
Holding: TypeAlias = Callable[[Array], Sequence[str]]
"""The names of dumped tensors with these values."""
Reweigh: TypeAlias = Callable[[Sequence[Mapping[str, Array]]], "Sequence[Array | None]"]

WORKING_SIZE = 1 << 21
"""Elements a rule computes with; of larger tensors every k-th slice of the longest axes."""

_UNITS = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8, DType.FLOAT32: 2.0**-24}
_BEGINNING = 256
_CHANNELS_SECOND = frozenset(
    (
        *("Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "MaxPool"),
        *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization"),
    )
)
"""ONNX ops whose channels are axis 1, however many axes there are."""
_LINEAR = (
    *("Conv", "MatMul", "Gemm", "FullyConnection", "Pool", "Depthwise", "Einsum", "BatchMatMul"),
    *("LSTM", "GRU", "RNN"),
)
_TELLING = 8
_STEADY = 0.003
"""Values that vary by less, of their size, are one value throughout but for noise."""


@dataclass(frozen=True)
class InsideStep:
    """An op of a group before its last one: the output the original gives, and what it takes."""

    op: Op
    tensor: str
    value: Array
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]


class Inside(Protocol):
    """The ops inside a group, and what comes out behind them."""

    @property
    def steps(self) -> Sequence[InsideStep]:
        """The ops whose outputs are not measured, in order."""
        ...

    def replaced(self, guesses: Sequence[tuple[InsideStep, Array]]) -> Sequence[Array | None]:
        """The group's output if a step gave a value, for each guess; None if that does not run."""
        ...


@dataclass(frozen=True)
class Foreign:
    """Values, of the same shape, that an op may have read for its ``operand``: those ``by`` another
    op, or None where they cannot be had."""

    operand: str
    by: str
    values: Callable[[], Array | None]


@dataclass(frozen=True)
class FaultEvidence:
    """One device output with an introduced error.

    ``device`` is d in golden layout, ``reference`` f(d_in) of the same shape, ``inputs``
    d_in by golden tensor name; ``floor`` the relative error the device's arithmetic
    explains. ``dtype`` is what the device computes in; ``ops`` are the golden ops of the group
    in order; ``constants`` their weights by tensor name, as far as they are at hand.
    ``others`` finds dumped tensors that do not depend on this one. ``rerun`` gives the group's
    output on ``inputs`` with attributes of one op changed, None if that does not run, ``reweigh``
    the outputs with other values of operands (by tensor name), one for each trial.
    ``inside`` are the ops before the last one of a group. ``right`` is what operands should
    have been whose dumps are wrong, ``beside`` what other ops made that read the same operands.
    """

    op: str
    port: int
    device: Array
    reference: Array
    floor: float = 0.0
    inputs: Mapping[str, Array] = field(default_factory=dict)
    dtype: DType | None = None
    ops: tuple[Op, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    others: Holding | None = None
    rerun: Rerun | None = None
    reweigh: Reweigh | None = None
    inside: Inside | None = None
    right: Sequence[Foreign] = ()
    beside: Sequence[Foreign] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the group's ops."""
        return tuple(op.type for op in self.ops)

    @property
    def linear(self) -> bool:
        """Whether an op of the group weighs its inputs: by wrong weights anything may come out."""
        return any(name in each for name in _LINEAR for each in self.types)


@dataclass(frozen=True)
class Cause:
    """What a rule says: a label, a sentence, how sure it is and its numbers."""

    label: str
    sentence: str
    confidence: float
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True)
class Trial(Generic[T]):
    """Attributes or operands to try by name, the label if they fit, and the words for them."""

    label: str
    words: str
    values: Mapping[str, T]


class SampledTensors:
    """A case as rules compute with it: float64, sampled if it is large.

    ``d`` and ``r`` have the shape of the tensor, or of the sample: whole slices, so axes
    keep their meaning. Elements that are not finite on either side count as equal.
    """

    def __init__(self, case: FaultEvidence) -> None:
        self.case = case
        self.steps = sampling_steps(case.reference.shape, _channel_axis(case))
        self.sampled = any(step > 1 for step in self.steps)
        d, r = self.sample(case.device), self.sample(case.reference)
        self.finite: Mask = np.isfinite(d) & np.isfinite(r)
        self.d: Floats = np.where(self.finite, d, 0.0)
        self.r: Floats = np.where(self.finite, r, 0.0)
        self.e: Floats = self.d - self.r

    def sample(self, values: Array) -> Floats:
        """*values*, of the tensor's shape, as the view takes them."""
        cut = values[tuple(slice(None, None, step) for step in self.steps)]
        return np.asarray(cut, np.float64)

    @cached_property
    def energy(self) -> float:
        """The sum of the squared errors."""
        return float(np.sum(self.e * self.e))

    def share(self, where: Mask) -> float:
        """The share of the error's energy at *where*."""
        return float(np.sum(self.e[where] ** 2)) / self.energy if self.energy else 0.0

    @cached_property
    def size(self) -> float:
        """The root mean square of the reference."""
        return rms(self.r)

    @cached_property
    def error(self) -> float:
        """The root mean square of the error."""
        return rms(self.e)

    @cached_property
    def noise(self) -> float:
        """The root mean square error that the device's arithmetic explains."""
        return self.case.floor * self.size

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the reference."""
        return float(np.std(self.r)) if self.r.size else 0.0

    @property
    def unit(self) -> float:
        """The relative rounding error of the device's element type."""
        return _UNITS.get(self.case.dtype, 0.0) if self.case.dtype else 0.0

    @cached_property
    def tolerance(self) -> Floats:
        """How far each element may be off by noise alone."""
        steady = max(4.0 * self.noise, 1e-7 * self.size)
        found: Floats = steady + 4.0 * self.unit * np.abs(self.r)
        return found

    @cached_property
    def wrong(self) -> Mask:
        """The elements that noise does not explain."""
        found: Mask = np.abs(self.e) > self.tolerance
        return found

    def fits(self, predicted: Floats, where: Mask | None = None, *, rest: float = 0.12) -> bool:
        """Whether *predicted* is what the device has: what is left is noise or little.

        *rest* is the share of the error's norm that may stay unexplained.
        """
        left = self.d - predicted
        error = self.e
        if where is not None:
            left, error = left[where], error[where]
        if left.size == 0:
            return False
        return self.little(left, error, rest)

    def little(self, left: Floats, error: Floats, rest: float = 0.12) -> bool:
        """Whether *left* of *error* is so little that what explains the difference is right.

        Values that are small by themselves leave little of a large error whatever is
        predicted, so what is left must be small beside how the device's values vary, too.
        """
        size, whole = rms(left), rms(error)
        noise = max(self.noise, self.case.floor * rms(self.d))  # of larger values it is larger
        steady = self.variation <= max(4.0 * noise, _STEADY * rms(self.d))
        known = max(2.0 * noise, (2.0 if steady else 0.3) * self.variation)
        return size <= max(rest * whole, min(2.0 * self.noise, 0.4 * whole)) and size <= known

    @cached_property
    def variation(self) -> float:
        """The standard deviation of the device's values, of its size if it is all the same."""
        return float(np.std(self.d)) or rms(self.d)

    def left(self, predicted: Floats, where: Mask | None = None) -> float:
        """The share of the error's norm that *predicted* leaves unexplained."""
        left, error = self.d - predicted, self.e
        if where is not None:
            left, error = left[where], error[where]
        whole = rms(error)
        return rms(left) / whole if whole else 0.0

    def explained_by(self, made: Array | None, rest: float = 0.1) -> bool:
        """Whether the op, run in another way, made what the device has."""
        if made is None or made.shape != self.case.reference.shape:
            return False
        return self.fits(self.made(made), rest=rest)

    def just_what(
        self,
        op: Op,
        label: str,
        words: str,
        made: Array | None,
        sure: float,
        **evidence: EvidenceValue,
    ) -> Cause:
        """The cause where *op*, run as *words* say, *made* what the device has."""
        left = 0.0 if made is None else self.left(self.made(made))
        return Cause(
            label,
            f"the device has just what {op.type} {op.name or op.id} gives {words}",
            sure if self.d.size >= 16 else min(sure, 0.7),
            {"op": op.id, **evidence, "left": left},
        )

    def made(self, values: Array) -> Floats:
        """What an op made, run again, as the view takes it."""
        found: Floats = np.nan_to_num(self.sample(values))
        return found

    def axes(self) -> list[int]:
        """The axes with more than one slice, the channel axis first."""
        shape = self.r.shape
        axes = [axis for axis in range(len(shape)) if shape[axis] > 1]
        first = _channel_axis(self.case)
        return sorted(axes, key=lambda axis: (axis != first, axis))


class TensorHashes:
    """Dumped tensors, found again by their values, whatever their shape: about 1 kB each."""

    def __init__(self) -> None:
        self._names: dict[bytes, list[str]] = {}

    def add(self, name: str, values: Array) -> None:
        """Remember a tensor if its values say anything."""
        for key in _contents(values):
            self._names.setdefault(key, []).append(name)

    def holding(self, values: Array, besides: str = "") -> tuple[str, ...]:
        """The tensors with these values, else those that begin with them, in the order added.

        Of longer tensors at least half of the values, from the first on, are compared.
        """
        for key in _contents(values)[:2]:
            found = [name for name in self._names.get(key, []) if name != besides]
            if found:
                return tuple(found)
        return ()


def rms(values: Floats) -> float:
    """The root mean square; 0 of nothing."""
    if values.size == 0:
        return 0.0
    largest = float(np.max(np.abs(values)))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = values / largest
    return largest * float(np.sqrt(np.mean(scaled * scaled)))


def sampling_steps(shape: tuple[int, ...], channel_axis: int | None) -> tuple[int, ...]:
    """Every how manieth slice of each axis to take so that no more than WORKING_SIZE is left."""
    steps = [1] * len(shape)
    left = list(shape)
    while int(np.prod(left, dtype=np.int64)) > WORKING_SIZE:
        order = sorted(range(len(left)), key=lambda axis: (axis == channel_axis, -left[axis]))
        axis = next(axis for axis in order if left[axis] > 1)
        steps[axis] += 1 + (steps[axis] > 1)  # 3, 5, ...: odd, so as not to beat with tiles
        left[axis] = -(-shape[axis] // steps[axis])
    return tuple(steps)


def _channel_axis(case: FaultEvidence) -> int:
    """The axis of the channels: as the ops say, or where it usually is."""
    axes = case.reference.ndim
    for op in case.ops:
        told = op.attrs.get("data_format", "")
        if isinstance(told, str) and told[:2] == "NC" and axes > 1:
            return 1
        if isinstance(told, str) and told[:1] == "N" and told[-1:] == "C":
            return axes - 1
        if op.type in _CHANNELS_SECOND and axes > 1:
            return 1
    return 1 if axes in (4, 5) else axes - 1


def _contents(values: Array) -> list[bytes]:
    """Hashes of all values, then of the first 2^k, 2^(k-1), ..., 256 of them, as float32.

    None of what looks like others by chance.
    """
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    keys = [b"whole" + _digest(flat)] if flat.size >= _TELLING and _tells(flat) else []
    size = 1 << max(0, flat.size.bit_length() - 1)
    while size >= _BEGINNING:
        if _tells(flat[:size]):
            keys.append(_digest(flat[:size]))
        size //= 2
    return keys


def _tells(flat: Array) -> bool:
    looked_at = flat[:: max(1, flat.size // (1 << 14))]
    return np.unique(looked_at).size >= min(_TELLING, flat.size // 2)


def _digest(flat: Array) -> bytes:
    return hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).digest()
