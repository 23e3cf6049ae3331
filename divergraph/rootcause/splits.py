"""The error of one device output, split into introduced and propagated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.last_place import most_suspicion
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.values import norms
from graphstore.model import ErrorSplit, Guilt, Role


@dataclass(frozen=True, slots=True)
class OutputValues:
    """What is known of one output: ``device`` d, ``reference`` f(d_in), ``golden`` g.

    ``floor`` is relative to the reference; ``inputs_error`` the largest relative error of
    what the group was fed, None if it was fed nothing that can differ. Errors whose norm is
    below ``absolute`` are explained whatever the reference is. ``handed`` is what the group
    was fed, ``precision`` what it is judged by.
    """

    device: Array
    reference: Array
    golden: Array
    floor: float
    inputs_error: float | None
    absolute: float = 0.0
    handed: Iterable[Array] = ()
    precision: Precision = FP32


def split_error(
    measured: OutputValues, options: RootCauseOptions, group: tuple[str, ...], runner: str
) -> ErrorSplit:
    """The split of one output's error. *runner* says what ran the reference."""
    apart, scale = norms(measured.device, measured.reference)
    propagated_apart, golden_scale = _propagated(measured)
    introduced = _ratio(apart, scale)
    propagated = _ratio(propagated_apart, golden_scale)
    floor = max(measured.floor, measured.absolute / scale) if scale > 0.0 else measured.floor
    suspicion = introduced / floor if introduced else 0.0
    if scale == 0.0 and measured.absolute > 0.0:
        suspicion = apart / measured.absolute
    if suspicion > options.guilty:
        most = most_suspicion(
            measured.device,
            measured.reference,
            measured.handed,
            measured.inputs_error,
            measured.precision,
            options.guilty,
        )
        if suspicion > most:
            suspicion = most
            floor = introduced / most if math.isfinite(introduced) else floor
    guilt = options.guilt(suspicion)
    amplification = _amplification(propagated, measured.inputs_error)
    return ErrorSplit(
        role=_role(guilt, propagated, floor, amplification),
        guilt=guilt,
        introduced=introduced,
        propagated=propagated,
        floor=floor,
        suspicion=suspicion,
        amplification=amplification,
        group=group,
        reference=runner,
    )


def _propagated(measured: OutputValues) -> tuple[float, float]:
    """|f(d_in) - g| and |g|, without the places explained away: NaN in the reference alone."""
    reference, golden = measured.reference, measured.golden
    apart, scale = norms(reference, golden)
    if math.isinf(apart):
        explained = np.isnan(reference) & np.isfinite(measured.device)
        apart, scale = norms(np.where(explained, golden, reference), golden)
    return apart, scale


def unknown(failure: str, group: tuple[str, ...] = (), runner: str = "") -> ErrorSplit:
    """The split of an output for which no reference could be run."""
    return ErrorSplit(Role.UNKNOWN, group=group, reference=runner, failure=failure)


def _ratio(apart: float, scale: float) -> float:
    if apart == 0.0:
        return 0.0
    return apart / scale if scale > 0.0 and math.isfinite(apart) else math.inf


def _amplification(propagated: float, inputs_error: float | None) -> float | None:
    if inputs_error is None or not math.isfinite(inputs_error) or inputs_error <= 0.0:
        return None
    return propagated / inputs_error


def _role(guilt: Guilt, propagated: float, floor: float, amplification: float | None) -> Role:
    if guilt is not Guilt.NONE:
        return Role.INTRODUCES
    if propagated <= floor:
        healed = amplification is not None and amplification < calibration.ATTENUATES
        return Role.ATTENUATES if healed and propagated > 0.0 else Role.CLEAN
    if amplification is None:
        return Role.CARRIES
    if amplification > calibration.AMPLIFIES:
        return Role.AMPLIFIES
    return Role.ATTENUATES if amplification < calibration.ATTENUATES else Role.CARRIES


def same_shape(value: Array, shape: tuple[int, ...]) -> Array | None:
    """*value* in *shape*, None if it has another number of elements."""
    if value.shape == shape:
        return value
    return value.reshape(shape) if value.size == math.prod(shape) else None


def worst_error(errors: list[float]) -> float | None:
    """The largest of some relative errors; None without any."""
    return float(np.max(errors)) if errors else None
