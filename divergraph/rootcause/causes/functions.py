"""Outputs that are another function of an input, or of the expected output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, Floats, SampledTensors, rms
from divergraph.rootcause.causes.limits import GUESS, LEFT, LIKELY, POINTS, SURE

_FEWEST = 64
"""With fewer elements a curve fits by chance."""
_LEFT = 0.15
"""The share of the error's norm that a free curve may leave."""

_erf = np.vectorize(erf, otypes=[np.float64])


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _leaky(slope: float) -> Callable[[Floats], Floats]:
    return lambda x: np.where(x > 0, x, slope * x)


FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "the identity": lambda x: x,
    "Relu": lambda x: np.maximum(x, 0.0),
    "Relu6": lambda x: np.clip(x, 0.0, 6.0),
    "LeakyRelu of slope 0.01": _leaky(0.01),
    "LeakyRelu of slope 0.1": _leaky(0.1),
    "LeakyRelu of slope 0.2": _leaky(0.2),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "Sigmoid": _sigmoid,
    "HardSigmoid of slope 0.2": lambda x: np.clip(0.2 * x + 0.5, 0.0, 1.0),
    "HardSigmoid of slope 1/6": lambda x: np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "Tanh": np.tanh,
    "HardTanh": lambda x: np.clip(x, -1.0, 1.0),
    "Softsign": lambda x: x / (1.0 + np.abs(x)),
    "Softplus": lambda x: np.logaddexp(0.0, x),
    "Silu": lambda x: x * _sigmoid(x),
    "HardSwish": lambda x: x * np.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "Gelu": lambda x: np.asarray(0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))),
    "Gelu by tanh": lambda x: 0.5 * x * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "Gelu by sigmoid": lambda x: x * _sigmoid(1.702 * x),
    "Erf": _erf,
    "Exp": lambda x: np.exp(np.minimum(x, 80.0)),
    "Exp of base 2": lambda x: np.exp2(np.minimum(x, 120.0)),
    "Abs": np.abs,
    "Square": np.square,
    "Sqrt": lambda x: np.sqrt(np.maximum(x, 0.0)),
    "Reciprocal": lambda x: 1.0 / np.where(x == 0.0, np.inf, x),
    "Rsqrt": lambda x: 1.0 / np.sqrt(np.where(x <= 0.0, np.inf, x)),
    "Log": lambda x: np.log(np.maximum(x, 1e-30)),
    "Sin": np.sin,
    "Cos": np.cos,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
}


def known_function(view: SampledTensors) -> Cause | None:
    """The output is a known function of an input, and the op is another one."""
    d, r = _thin(view.d), _thin(view.r)
    if d.size < 8:
        return None
    error = rms(d - r)
    limit = max(0.5 * LEFT * error, min(1.5 * view.noise, 0.2 * error))
    limit = min(limit, 0.3 * float(np.std(d)))  # values that hardly vary are near many functions
    for name, x in _inputs(view).items():
        for word, function in FUNCTIONS.items():
            with np.errstate(all="ignore"):
                output = np.asarray(function(x), np.float64)
            if not np.isfinite(output).all() or rms(d - output) > limit:
                continue
            what = " and ".join(dict.fromkeys(view.case.types)) or "op"
            return Cause(
                "wrong_activation",
                f"the output is {word} of {name}, where {what} is expected: a wrong function or "
                "approximation",
                SURE if d.size >= _FEWEST else GUESS,
                {
                    "function": word,
                    "input": name,
                    "left": rms(d - output) / error if error else 0.0,
                },
            )
    return None


def free_curve(view: SampledTensors) -> Cause | None:
    """Equal inputs have equal errors: some other function was computed, whatever it is."""
    if view.d.size < _FEWEST or not view.visible:
        return None
    d, r = _thin(view.d), _thin(view.r)
    for name, x in {"the expected value": r, **_inputs(view)}.items():
        error_left = _curve_left(x, d - r, view.noise)
        if error_left is None or error_left > _LEFT:
            continue
        worst = float(x[int(np.argmax(np.abs(d - r)))])
        what = name if x is r else f"the input {name}"
        return Cause(
            "wrong_activation",
            f"the error depends on {what} alone and is largest near {worst:.4g}: another "
            "function, approximation or constant",
            LIKELY,
            {"of": name, "left": error_left, "largest_at": worst},
        )
    return None


def _curve_left(x: Floats, error: Floats, noise: float) -> float | None:
    """The share of the norm of *error* that a curve of up to 64 lines over *x* leaves; 0 if only
    noise is left, None with too few elements."""
    order = np.argsort(x, kind="stable")
    x, error = x[order], error[order]
    parts = min(64, x.size // 8)
    whole_error = rms(error)
    if parts < 4 or whole_error == 0.0 or x[0] == x[-1]:
        return None
    rest = 0.0
    for xs, es in zip(np.array_split(x, parts), np.array_split(error, parts), strict=True):
        centred, mean = xs - xs.mean(), float(es.mean())
        power = float(centred @ centred)
        slope = float(centred @ es) / power if power > 0.0 else 0.0
        residuals = es - mean - slope * centred
        rest += float(residuals @ residuals) * xs.size / max(1, xs.size - 2)
    left_rms = float(np.sqrt(rest / x.size))
    if left_rms <= min(1.5 * noise, 0.3 * whole_error):
        return 0.0
    return left_rms / whole_error


def _inputs(view: SampledTensors) -> dict[str, Floats]:
    shape = view.case.reference.shape
    same = {
        name: _thin(view.sample(values))
        for name, values in view.case.inputs.items()
        if values.shape == shape and values.dtype.kind in "fiu"
    }
    return {name: x for name, x in same.items() if np.isfinite(x).all()}


def _thin(values: Array) -> Floats:
    flat = values.reshape(-1)
    return flat[:: max(1, flat.size // POINTS)]


CAUSES = (
    CauseRule(known_function, CauseStage.FUNCTION, 20, {"wrong_activation": LIKELY}),
    CauseRule(free_curve, CauseStage.VAGUE, 40),
)
