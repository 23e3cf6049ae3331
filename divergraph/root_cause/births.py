"""NaN and infinities that start where healthy arithmetic makes them of finite values.

An x + 1e-10 that loses its 1e-10 to rounding is no fault, and neither is the logarithm of
the 0 that is left, computed rightly as -inf. But the output is broken, and there is where.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from divergraph.execution.contract import Array
from graphstore.algorithms import descendants
from graphstore.arrays import GraphArrays
from graphstore.model import ErrorSplit, Finding, FindingKind, Guilt, Role, TensorRef

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


def is_birth(device: Array, reference: Array, golden: Array, inputs: Mapping[str, Array]) -> bool:
    """Whether reference and device make NaN or Inf of finite inputs where golden has none."""
    if reference.dtype.kind not in "fc" or device.dtype.kind not in "fc" or not inputs:
        return False
    if golden.dtype.kind not in "fc":
        return False
    broken = ~np.isfinite(reference)
    if not broken.any() or not np.all(np.isfinite(golden[broken])):
        return False
    if np.all(np.isfinite(device[broken])):
        return False
    return all(
        bool(np.isfinite(value).all()) for value in inputs.values() if value.dtype.kind in "fc"
    )


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


def explained_by(emulated: Array | None, reference: Array, device: Array) -> Array:
    """*reference* without the places where the device's arithmetic makes NaN or Inf, too."""
    if emulated is None or emulated.shape != reference.shape or reference.dtype.kind != "f":
        return reference
    if emulated.dtype.kind != "f" or device.dtype.kind != "f":
        return reference
    lost = ~np.isfinite(emulated) & ~np.isfinite(device).reshape(reference.shape)
    return np.where(lost, np.nan, reference) if lost.any() else reference


def with_births(
    arrays: GraphArrays,
    splits: Mapping[TensorRef, ErrorSplit],
    births: Collection[TensorRef],
    broken: Collection[str],
) -> tuple[dict[TensorRef, ErrorSplit], list[Finding]]:
    """*splits*, in which births with no guilty op before them are guilty; and why.

    Only those are that reach one of the ops *broken*: the outputs of the model that are
    over a limit. Others, which later ops heal, are suspect.
    """
    guilty = {ref.op for ref, split in splits.items() if split.guilt is Guilt.GUILTY}
    explained = {
        arrays.ids[n] for n in descendants(arrays, [arrays.number[op] for op in guilty])
    } | guilty
    found = dict(splits)
    findings: list[Finding] = []
    for ref in sorted(births, key=lambda each: arrays.number[each.op]):
        if ref.op in explained:
            continue
        behind = {arrays.ids[n] for n in descendants(arrays, [arrays.number[ref.op]])}
        harm = any(op == ref.op or op in behind for op in broken)
        guilt = Guilt.GUILTY if harm else Guilt.SUSPECT
        found[ref] = replace(found[ref], guilt=guilt, suspicion=math.inf, role=Role.AMPLIFIES)
        explained |= behind
        findings.append(
            Finding(
                FindingKind.CAUSE,
                LABEL,
                "NaN or infinities arise here of finite inputs, in the original op as well: "
                "its inputs on the device have values the golden ones have not, such as 0 "
                "where rounding took the rest",
                ref.op,
                port=ref.port,
                confidence=0.9,
            )
        )
    return found, findings
