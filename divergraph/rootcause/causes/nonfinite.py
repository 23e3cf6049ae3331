"""NaN and infinities that the device makes from finite values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, FaultEvidence, SampledTensors
from divergraph.rootcause.causes.limits import LIKELY, SURE
from divergraph.rootcause.causes.words import channels_text, share_text
from divergraph.text.words import counted
from graphstore.model import DType, EvidenceValue

_LARGEST = {
    DType.FLOAT16: float(np.finfo(np.float16).max),
    DType.BFLOAT16: (2.0 - 2.0**-7) * 2.0**127,
    DType.FLOAT32: float(np.finfo(np.float32).max),
}
_NEAR = 0.92
"""The share of the type's largest value from which a result may have overflowed: partial sums
rounded to float16 may overflow a little before the total does."""
_Test: TypeAlias = Callable[[Array], Array]
_UNDEFINED: Mapping[str, tuple[str, _Test]] = {
    "Log": ("the logarithm of {} <= 0", lambda x: np.asarray(x <= 0)),
    "Pow": ("a power of {} < 0", lambda x: np.asarray(x < 0)),
    "Sqrt": ("the square root of {} < 0", lambda x: np.asarray(x < 0)),
    "Rsqrt": ("1/sqrt of {} <= 0", lambda x: np.asarray(x <= 0)),
    "Reciprocal": ("1/x of {} that are 0", lambda x: np.asarray(x == 0)),
    "Div": ("the quotient by {} that are 0", lambda x: np.asarray(x == 0)),
    "RealDiv": ("the quotient by {} that are 0", lambda x: np.asarray(x == 0)),
}
_QUOTIENTS = frozenset(("Div", "RealDiv"))


def nonfinite(view: SampledTensors) -> Cause | None:
    """NaN or Inf where the reference of the same inputs is finite."""
    case = view.case
    device, reference = case.device, case.reference
    if device.dtype.kind not in "fc":
        return None
    bad = ~np.isfinite(device) & np.isfinite(reference)
    count = int(np.count_nonzero(bad))
    if not count:
        return None
    nans = int(np.count_nonzero(np.isnan(device[bad])))
    expected = np.abs(np.asarray(reference[bad], np.float64))
    first = int(np.flatnonzero(bad.reshape(-1))[0])
    evidence: dict[str, EvidenceValue] = {
        "nonfinite": count,
        "nan": nans,
        "infinite": count - nans,
        "elements": int(device.size),
        "first_index": first,
        "largest_expected": float(expected.max()),
    }
    return _overflow(case, expected, evidence) or _undefined(view, bad, evidence)


def _overflow(
    case: FaultEvidence, expected: np.ndarray, evidence: dict[str, EvidenceValue]
) -> Cause | None:
    dtype, limit = _limit(case)
    largest, infinite = float(expected.max()), evidence["infinite"]
    over = int(np.count_nonzero(expected >= _NEAR * limit))
    if over and over >= 0.5 * expected.size:
        evidence = {**evidence, "limit": limit, "over_limit": over}
        return Cause(
            "overflow",
            f"overflow: values up to {largest:.3g} do not fit {dtype} (largest {limit:.5g}); "
            f"{counted(expected.size, 'value')} became Inf or NaN",
            SURE,
            evidence,
        )
    squared = max((_largest(values) for values in case.inputs.values()), default=0.0) ** 2
    if infinite and dtype != DType.FLOAT32 and squared >= limit:
        return Cause(
            "overflow",
            f"overflow in between: the results fit {dtype} (up to {largest:.3g}), but the "
            f"inputs' squares reach {squared:.3g}, over its largest value {limit:.5g}",
            LIKELY,
            {**evidence, "limit": limit, "largest_square": squared},
        )
    return None


def _undefined(view: SampledTensors, bad: np.ndarray, evidence: dict[str, EvidenceValue]) -> Cause:
    case = view.case
    what = "NaN" if evidence["nan"] else "Inf"
    count, reason = int(np.count_nonzero(bad)), ""
    for op in case.ops:
        if op.type not in _UNDEFINED:
            continue
        text, test = _UNDEFINED[op.type]
        dividends = op.inputs[1 if op.type in _QUOTIENTS else 0 :][:1]
        values = (
            case.inputs.get(dividends[0].tensor) if dividends and dividends[0] is not None else None
        )
        if values is None or values.dtype.kind != "f":
            continue
        hits = int(np.count_nonzero(test(values)))
        if hits:
            reason = f"; {op.type} takes {text.format(counted(hits, 'value'))}"
    where = ""
    if bad.ndim > 1:
        where = channels_text(np.asarray(bad.any(axis=_others(bad, view))))
    sentence = (
        f"{what} starts here: {counted(count, 'value')} "
        f"({share_text(count, bad.size)}) where the same inputs give finite values up to "
        f"{evidence['largest_expected']:.3g}{where}{reason}"
    )
    return Cause("nan_origin", sentence, SURE, evidence)


def _others(bad: np.ndarray, view: SampledTensors) -> tuple[int, ...]:
    kept_axis = view.axes()[0] if view.axes() else 0
    return tuple(axis for axis in range(bad.ndim) if axis != kept_axis)


def _limit(case: FaultEvidence) -> tuple[DType, float]:
    """The element type that may have overflowed (float16 if not known), and its largest value."""
    dtype = case.dtype if case.dtype in _LARGEST else DType.FLOAT16
    return dtype, _LARGEST[dtype]


def _largest(values: np.ndarray) -> float:
    if values.dtype.kind not in "fiu" or values.size == 0:
        return 0.0
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max()) if finite.size else 0.0


CAUSES = (CauseRule(nonfinite, CauseStage.NO_NUMBER, 10, {"nan_origin": SURE, "overflow": SURE}),)
