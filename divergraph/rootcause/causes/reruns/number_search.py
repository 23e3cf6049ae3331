"""Real attributes such as epsilon: the value that explains the device is searched for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from divergraph.execute.translate.piece import ArgumentKind, ReadArgument
from divergraph.rootcause.causes.evidence import Floats, SampledTensors, Trial, rms
from divergraph.rootcause.causes.limits import NO_GAIN, STEP
from divergraph.rootcause.causes.words import argument_name, is_epsilon
from graphstore.model import AttrValue, Op
from importers.msprobe.graph import ARGUMENTS

_PROMISING = 0.7
"""The share of the error that the best of a few values may leave for more to be tried."""
_USUAL: Mapping[str, Mapping[str, float]] = {
    "LeakyRelu": {"alpha": 0.01},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""By op type the real-valued attributes that files may leave out, with their values then."""


def _numbers(op: Op, arguments: Mapping[str, ReadArgument]) -> dict[str, tuple[str, float]]:
    """The real-valued attributes of *op* that are above 0, with their names: those it has, those
    it may lack, and the *arguments* its row reads."""
    own = {name: value for name, value in op.attrs.items() if isinstance(value, float)}
    usual = dict(_USUAL.get(op.type, {}))
    if "Norm" in op.type and ARGUMENTS not in op.attrs:
        usual.setdefault("epsilon", 1e-5)
    numbers = {name: (argument_name(name), value) for name, value in {**usual, **own}.items()}
    numbers |= {
        attribute: (read.name, read.value)
        for attribute, read in arguments.items()
        if read.kind is ArgumentKind.NUMBER and isinstance(read.value, float)
    }
    return {name: (said, value) for name, (said, value) in numbers.items() if value > 0.0}


def searched_numbers(
    view: SampledTensors, op: Op, arguments: Mapping[str, ReadArgument]
) -> Iterator[Trial[AttrValue]]:
    """The numbers of *op* and of the *arguments* its row reads, with those values that are nearest
    to the device."""
    for name, (said, own) in _numbers(op, arguments).items():
        trial = _search(view, op, name, said, own)
        if trial is not None:
            yield trial


def epsilons_left_out(op: Op, arguments: Mapping[str, ReadArgument]) -> Iterator[Trial[AttrValue]]:
    """*op* without its epsilons: what a search finds where the device has a multiple of what is
    expected explains that no better than a wrong scale does, but 0 is no number that fits all."""
    for name, (said, own) in _numbers(op, arguments).items():
        if is_epsilon(name, own):
            yield _left_out(name, said, own)


def _left_out(name: str, said: str, own: float) -> Trial[AttrValue]:
    return Trial("wrong_epsilon", f"with {said} 0 in place of {own:.3g}", {name: 0.0})


def _search(
    view: SampledTensors, op: Op, name: str, said: str, own: float
) -> Trial[AttrValue] | None:
    """The value of a real attribute that explains the device, searched over its power of ten:
    epsilons over 8 orders of magnitude and up to 1, others over 2."""
    rerun = view.case.rerun
    assert rerun is not None

    def outcome(value: float) -> Floats | None:
        output = rerun(op, {name: value})
        return (
            None
            if output is None or output.shape != view.case.reference.shape
            else view.made(output)
        )

    def left(power: float) -> float:
        output = outcome(own * 10.0**power)
        return np.inf if output is None else rms(view.d - output)

    label, coarse = "wrong_setting", np.linspace(-1.0, 1.0, 17)
    if is_epsilon(name, own):
        label, coarse = "wrong_epsilon", np.arange(-4.0, max(4.0, -np.log10(own)) + 0.5, 0.5)
    lefts = [left(float(power)) for power in coarse]
    place = int(np.argmin(lefts))
    if lefts[place] > _PROMISING * view.error:
        return None
    low, high = coarse[max(0, place - 1)], coarse[min(coarse.size - 1, place + 1)]
    for _ in range(6):
        first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
        if left(float(first)) < left(float(second)):
            high = second
        else:
            low = first
    value = _refined(view, outcome, own * 10.0 ** float((low + high) / 2))
    if abs(value / own) < NO_GAIN:
        return _left_out(name, said, own) if label == "wrong_epsilon" else None
    if label == "wrong_setting" and view.explained_by(rerun(op, {name: 0.0})):
        return None  # within the noise of nothing, so what it multiplies is missing
    return Trial(label, f"with {said} {value:.3g} in place of {own:.3g}", {name: value})


def _refined(
    view: SampledTensors, outcome: Callable[[float], Floats | None], value: float
) -> float:
    """*value* moved by the slope of the outcome to where it is nearest to the device."""
    for _ in range(4):
        at, moved = outcome(value), outcome(value * (1.0 + STEP))
        if at is None or moved is None:
            break
        slope = moved - at
        power = float(np.sum(slope * slope))
        more = float(np.sum(slope * (view.d - at))) / power if power else 0.0
        landed = outcome(value * (1.0 + STEP * more))
        if landed is None or rms(view.d - landed) >= rms(view.d - at):
            break
        value *= 1.0 + STEP * more
    return value
