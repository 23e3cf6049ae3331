"""NaN and infinities that start where healthy arithmetic makes them of finite values.

An x + 1e-10 that loses its 1e-10 to rounding is no fault, and neither is the logarithm of
the 0 that is left, computed rightly as -inf. But the output is broken, and there is where.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import ErrorSplit, Finding, FindingKind, Guilt, Role, TensorRef
from graphstore.traverse.algorithms import descendants
from graphstore.traverse.arrays import GraphArrays

LABEL = "nonfinite_born"
IGNORED = "nan_ignored"
_HEALING = frozenset(
    {
        *("Relu", "Relu6", "LeakyRelu", "PRelu", "ThresholdedRelu", "Clip", "Max", "Min"),
        *("Maximum", "Minimum", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "Where"),
        *("HardSigmoid", "HardSwish", "ArgMax", "ArgMin", "TopK", "If", "Loop", "Scan"),
    }
)
"""Ops that compare: devices differ in what they make of NaN."""


def is_nonfinite_origin(
    device: Array, reference: Array, golden: Array, inputs: Mapping[str, Array]
) -> bool:
    """Whether reference and device make NaN or Inf of finite inputs, or NaN of infinite ones,
    where golden has none."""
    if reference.dtype.kind not in "fc" or device.dtype.kind not in "fc" or not inputs:
        return False
    if golden.dtype.kind not in "fc":
        return False
    broken = ~np.isfinite(reference)
    if not broken.any() or not np.all(np.isfinite(golden[broken])):
        return False
    if np.all(np.isfinite(device[broken])):
        return False
    given = [value for value in inputs.values() if value.dtype.kind in "fc"]
    if all(bool(np.isfinite(value).all()) for value in given):
        return True
    # Infinities may be those of a mask, which are no fault; the NaN they make are new.
    fed_nan = any(bool(np.isnan(value).any()) for value in given)
    return not fed_nan and bool(np.isnan(device[np.isnan(reference) & np.isfinite(golden)]).any())


def ignores_nan(
    device: Array, reference: Array, inputs: Mapping[str, Array], types: Collection[str]
) -> bool:
    """Whether ops that make nothing but NaN of these inputs gave only numbers on the device."""
    if reference.dtype.kind != "f" or device.dtype.kind != "f" or not reference.size:
        return False
    if _HEALING.intersection(types) or not np.isnan(reference).all():
        return False
    fed = any(each.dtype.kind == "f" and np.isnan(each).any() for each in inputs.values())
    return fed and bool(np.isfinite(device).all())


def ignoring(output: TensorRef) -> Finding:
    """What is said of an output that shows no NaN of its inputs."""
    return Finding(
        FindingKind.CAUSE,
        IGNORED,
        "its inputs make NaN of every value, yet the device has numbers: it did not compute "
        "these from what is dumped as its inputs",
        output.op,
        port=output.port,
        confidence=0.7,
    )


def with_nonfinite_origins(
    arrays: GraphArrays,
    splits: Mapping[TensorRef, ErrorSplit],
    births: Collection[TensorRef],
    broken: Mapping[str, bool],
) -> tuple[dict[TensorRef, ErrorSplit], list[Finding]]:
    """*splits*, in which births with no guilty op before them are guilty; and why.

    *broken* are the ops of the model's outputs that are over a limit, and whether these hold
    NaN or infinities. Guilty are those that reach one that no guilty op explains, which for
    NaN and infinities is one that makes such itself. Others, which later ops heal, are suspect.
    """
    guilty = {ref: split for ref, split in splits.items() if split.guilt is Guilt.GUILTY}
    explained = _reached(arrays, {ref.op for ref in guilty})
    lost = {ref.op for ref, split in guilty.items() if not math.isfinite(split.introduced or 0.0)}
    by_lost = _reached(arrays, lost)
    unexplained = {
        op for op, nonfinite in broken.items() if op not in (by_lost if nonfinite else explained)
    }
    found = dict(splits)
    findings: list[Finding] = []
    for ref in sorted(births, key=lambda each: arrays.number[each.op]):
        if ref.op in explained:
            continue
        behind = _reached(arrays, {ref.op})
        harm = not behind.isdisjoint(unexplained)
        guilt = Guilt.GUILTY if harm else Guilt.SUSPECT
        found[ref] = replace(found[ref], guilt=guilt, suspicion=math.inf, role=Role.AMPLIFIES)
        explained |= behind - {ref.op}
        findings.append(
            Finding(
                FindingKind.CAUSE,
                LABEL,
                "NaN or infinities arise here of inputs without NaN, in the original op as well: "
                "its inputs on the device have values the golden ones have not, such as 0 "
                "where rounding took the rest, or infinity for a large number",
                ref.op,
                port=ref.port,
                confidence=0.9,
            )
        )
    return found, findings


def _reached(arrays: GraphArrays, ops: Collection[str]) -> set[str]:
    """The *ops* and all behind them."""
    numbers = [arrays.number[op] for op in ops]
    return {*ops, *(arrays.ids[n] for n in descendants(arrays, numbers))}
