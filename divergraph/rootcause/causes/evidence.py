"""What is known of one output with an introduced error, and how rules see its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from divergraph.execute.contract import BodyChange
from divergraph.rootcause.causes.limits import ENOUGH, GUESS, LEFT, LIKELY, SURE
from graphstore.model import UNIT_ROUNDOFF, AttrValue, DType, Evidence, EvidenceValue, Op

T = TypeVar("T")
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rerun: TypeAlias = Callable[[Op, Mapping[str, AttrValue]], "Array | None"]
Holding: TypeAlias = Callable[[Array], Sequence[str]]
"""Gives the names of dumped tensors with the given values."""
Reweigh: TypeAlias = Callable[[Sequence[Mapping[str, Array]]], "Sequence[Array | None]"]

WORKING_SIZE = 1 << 21
"""Elements a rule computes with; larger tensors are sampled. Bounds cost."""

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
_OF_NOISE = 2.0
"""What an exact explanation may leave, in units of noise."""
_LITTLE = 0.25
"""The share of the error that it may leave: of a small error noise is much."""
_STEADY = 0.003
"""Standard deviation over root mean square, below which values are one constant with noise."""


class RunsSpentError(Exception):
    """The op runs that a search for causes may take are spent; says nothing of the output."""


@dataclass
class RunBudget:
    """Op runs that are ``left`` for all causes of a run: a group of n ops that is run again takes
    n. No rule takes more than ``most``, however many ops the group has.

    Elements say nothing of the cost: one dump in eight of a model leaves groups of hundreds of ops.
    """

    left: int
    most: int
    _of_rule: int = 0

    def begin(self) -> None:
        """The next rule starts."""
        self._of_rule = self.most

    def spend(self, runs: int) -> None:
        """Take *runs* op runs.

        Raises:
            RunsSpentError: there are not as many left.
        """
        if runs > min(self.left, self._of_rule):
            raise RunsSpentError
        self.left -= runs
        self._of_rule -= runs


@dataclass(frozen=True)
class InsideStep:
    """An op of a group before its last one: the original's output ``value``, and what it reads."""

    op: Op
    tensor: str
    value: Array
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]


class Inside(Protocol):
    """The ops inside a group, and the group's output if one of them gave something else."""

    @property
    def steps(self) -> Sequence[InsideStep]:
        """The ops whose outputs are not measured, in order."""
        ...

    def replaced(self, guesses: Sequence[tuple[InsideStep, Array]]) -> Sequence[Array | None]:
        """For each guess the group's output if that step gave that value; None if it fails."""
        ...

    def remade(
        self, step: InsideStep, trials: Sequence[Mapping[str, Array]]
    ) -> Sequence[Array | None]:
        """For each trial the step's output with other values of operands, by tensor name; None if
        it fails."""
        ...


class BodyOps(Protocol):
    """The ops in the bodies of a group's op, and the group's output if one of them is changed."""

    @property
    def ops(self) -> Sequence[Op]:
        """The ops of all bodies."""
        ...

    def changed(self, change: BodyChange) -> Array | None:
        """The group's output after a change; None if it fails."""
        ...


@dataclass(frozen=True)
class Foreign:
    """Values an op may have read in place of its ``operand``: those of the tensor ``by``, in the
    operand's shape; None where they cannot be read."""

    operand: str
    by: str
    values: Callable[[], Array | None]


@dataclass(frozen=True)
class FaultEvidence:
    """One device output with an introduced error.

    ``device`` is d in golden's layout, ``reference`` r = f(d_in) of the same shape, ``inputs`` d_in
    by golden tensor name; ``floor`` is the relative error that the device's arithmetic explains.
    ``dtype`` is the device's element type; ``ops`` are the golden ops of the group in order;
    ``constants`` their weights by tensor name, as far as known. ``others`` finds dumped tensors by
    their values, among those that do not depend on this one. ``rerun`` gives the group's output
    with other attributes of one op, None if that fails; ``reweigh`` gives it for each trial with
    other values of operands, by tensor name. ``inside`` are the ops before the last one of a
    group, ``bodies`` the ops in bodies of its ops. With ``beyond_noise`` the device has the
    reference wherever noise explains the difference, so that any error is one. ``right`` are
    references of operands whose dumps are wrong, ``beside`` outputs of other ops that read the same
    operands. ``golden_port`` is the output of the last op that the device's ``port`` stands for;
    None: the same. Whatever runs ops again takes them from the ``budget``.
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
    bodies: BodyOps | None = None
    right: Sequence[Foreign] = ()
    beside: Sequence[Foreign] = ()
    beyond_noise: bool = False
    golden_port: int | None = None
    budget: RunBudget | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the group's ops."""
        return tuple(op.type for op in self.ops)

    @property
    def linear(self) -> bool:
        """Whether an op of the group has weights: wrong ones may give any error."""
        return any(has_weights(op_type) for op_type in self.types)


@dataclass(frozen=True)
class Cause:
    """What a rule found: a label, a sentence, its confidence (0 to 1), and the numbers used."""

    label: str
    sentence: str
    confidence: float
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True)
class Trial(Generic[T]):
    """Values of attributes or operands to try, by name, with the label and words if they fit."""

    label: str
    words: str
    values: Mapping[str, T]


def has_weights(op_type: str) -> bool:
    """Whether ops of a type add up products with weights, so that any error may be theirs."""
    return any(name in op_type for name in _LINEAR)


class SampledTensors:
    """A case as rules compute with it: float64 arrays, sampled if the tensor is large.

    ``d`` (device), ``r`` (reference) and ``e`` = d - r have the shape of the tensor or of a sample
    of whole slices, so axes keep their meaning. Elements that are not finite on either side are 0
    in all three.
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
        """*values*, of the whole tensor's shape, sampled like ``d``; float64."""
        cut = values[tuple(slice(None, None, step) for step in self.steps)]
        return np.asarray(cut, np.float64)

    def of_part(self, device: Array, reference: Array) -> SampledTensors:
        """A part of the tensor as one of its own, with the noise of the whole; nothing else of the
        case is of that part alone."""
        size = rms(reference)
        case = replace(
            self.case,
            device=device,
            reference=reference,
            floor=self.noise / size if size else self.case.floor,
            inputs={},
            constants={},
            others=None,
            rerun=None,
            reweigh=None,
            inside=None,
        )
        return SampledTensors(case)

    @cached_property
    def energy(self) -> float:
        """The sum of squared errors."""
        return float(np.sum(self.e * self.e))

    def share(self, where: Mask) -> float:
        """The share of ``energy`` at the elements *where*, 0 to 1."""
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
    def visible(self) -> bool:
        """Whether the error is clearly more than noise."""
        return self.error > 0.0 and (self.case.beyond_noise or self.error > 3.0 * self.noise)

    @property
    def sure(self) -> float:
        """How sure an explanation without parameters is that fits all values."""
        return SURE if self.d.size >= ENOUGH else GUESS

    @property
    def unit(self) -> float:
        """The relative rounding error of the device's element type."""
        return UNIT_ROUNDOFF.get(self.case.dtype, 0.0) if self.case.dtype else 0.0

    @cached_property
    def tolerance(self) -> Floats:
        """The largest error of each element that noise explains, of the shape of ``d``."""
        steady = max(0.0 if self.case.beyond_noise else 4.0 * self.noise, 1e-7 * self.size)
        tolerance: Floats = steady + 4.0 * self.unit * np.abs(self.r)
        return tolerance

    @cached_property
    def wrong(self) -> Mask:
        """The elements that noise does not explain."""
        return np.asarray(np.abs(self.e) > self.tolerance)

    def fits(self, predicted: Floats, where: Mask | None = None, *, rest: float = LEFT) -> bool:
        """Whether *predicted* (of the shape of ``d``) explains the device: only noise is left.

        *rest* is the share of the error's norm that may stay unexplained. With *where*, only these
        elements are looked at.
        """
        error_left = self.d - predicted
        error = self.e
        if where is not None:
            error_left, error = error_left[where], error[where]
        if error_left.size == 0:
            return False
        return self.little(error_left, error, rest)

    def little(self, error_left: Floats, error: Floats, rest: float = LEFT) -> bool:
        """Whether what is *error_left* of *error* is negligible, so that the explanation is right.

        A prediction of 0 leaves little of a large error if the device's values are small, so what
        is left must also be small compared with how the device's values vary.
        """
        size, whole_error = rms(error_left), rms(error)
        noise = max(self.noise, self.case.floor * rms(self.d))  # larger values have more noise
        steady = self.variation <= max(4.0 * noise, _STEADY * rms(self.d))
        limit = max(2.0 * noise, (2.0 if steady else 0.3) * self.variation)
        return (
            size <= max(rest * whole_error, min(2.0 * self.noise, 0.4 * whole_error))
            and size <= limit
        )

    @cached_property
    def variation(self) -> float:
        """The standard deviation of the device's values; their size if they are constant."""
        return float(np.std(self.d)) or rms(self.d)

    def left(self, predicted: Floats, where: Mask | None = None) -> float:
        """The share of the error's norm that *predicted* leaves unexplained."""
        error_left, error = self.d - predicted, self.e
        if where is not None:
            error_left, error = error_left[where], error[where]
        whole_error = rms(error)
        return rms(error_left) / whole_error if whole_error else 0.0

    def exact(self, predicted: Floats, where: Mask | None = None) -> bool:
        """Whether *predicted* (of the shape of ``d``) leaves no more than noise of the device."""
        error_left, d = self.d - predicted, self.d
        if where is not None:
            error_left, d = error_left[where], d[where]
        return rms(error_left) <= self._exactness(d)

    @property
    def exactness(self) -> float:
        """The root mean square that an exact explanation may leave."""
        return self._exactness(self.d)

    def _exactness(self, d: Floats) -> float:
        return _OF_NOISE * max(self.noise, self.case.floor * rms(d), self.unit * rms(d))

    def explains(self, predicted: Floats) -> bool:
        """Whether *predicted* leaves no more than noise, and little of an error no larger."""
        return self.exact(predicted) and self.left(predicted) <= _LITTLE

    def explained_by(self, output: Array | None, rest: float = LEFT) -> bool:
        """Whether *output*, the group's whole output run another way, is what the device has."""
        if output is None or output.shape != self.case.reference.shape:
            return False
        return self.fits(self.made(output), rest=rest)

    def cause_of_rerun(
        self,
        op: Op,
        label: str,
        words: str,
        output: Array | None,
        **evidence: EvidenceValue,
    ) -> Cause:
        """The cause where *output*, of the group with *op* changed as *words* say, is what the
        device has."""
        predicted = self.r if output is None else self.made(output)
        sure, how = self.told(predicted, self.sure)
        return Cause(
            label,
            f"the device has {how} what {op.type} {op.name or op.id} gives {words}",
            sure,
            {"op": op.id, **evidence, "left": self.left(predicted)},
        )

    def told(self, predicted: Floats, sure: float) -> tuple[float, str]:
        """How sure *predicted* makes, at most *sure*, and the word for how near it comes."""
        if self.explains(predicted):
            return sure, "exactly"
        return min(sure, LIKELY), "nearly"

    def made(self, values: Array) -> Floats:
        """The whole output of a group run again, sampled like ``d``; NaN as 0."""
        return np.asarray(np.nan_to_num(self.sample(values)))

    def axes(self) -> list[int]:
        """The axes with more than one slice, the channel axis first."""
        shape = self.r.shape
        axes = [axis for axis in range(len(shape)) if shape[axis] > 1]
        first = _channel_axis(self.case)
        return sorted(axes, key=lambda axis: (axis != first, axis))


def rms(values: Floats) -> float:
    """The root mean square; 0 for no elements. Scaled, so that no square overflows."""
    if values.size == 0:
        return 0.0
    largest = float(np.max(np.abs(values)))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = values / largest
    return largest * float(np.sqrt(np.mean(scaled * scaled)))


def sampling_steps(shape: tuple[int, ...], channel_axis: int | None) -> tuple[int, ...]:
    """The step along each axis with which no more than WORKING_SIZE elements are left.

    The longest axes are thinned first, the channel axis last: causes are told by channels.
    """
    steps = [1] * len(shape)
    sizes = list(shape)
    while int(np.prod(sizes, dtype=np.int64)) > WORKING_SIZE:
        order = sorted(range(len(sizes)), key=lambda axis: (axis == channel_axis, -sizes[axis]))
        axis = next(axis for axis in order if sizes[axis] > 1)
        steps[axis] += 1 + (steps[axis] > 1)  # 3, 5, ...: odd, so as not to beat with tiles
        sizes[axis] = -(-shape[axis] // steps[axis])
    return tuple(steps)


def _channel_axis(case: FaultEvidence) -> int:
    """The channel axis: the one the ops' attributes or types say, else the usual one."""
    axes = case.reference.ndim
    for op in case.ops:
        data_format = op.attrs.get("data_format", "")
        if isinstance(data_format, str) and data_format[:2] == "NC" and axes > 1:
            return 1
        if isinstance(data_format, str) and data_format[:1] == "N" and data_format[-1:] == "C":
            return axes - 1
        if op.type in _CHANNELS_SECOND and axes > 1:
            return 1
    return 1 if axes in (4, 5) else axes - 1
