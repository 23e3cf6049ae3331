"""NaN and infinities that correct arithmetic makes of finite values.

An x + 1e-10 that loses its 1e-10 to rounding is no fault, and neither is the logarithm of
the remaining 0, computed correctly as -inf. Yet the output is broken, and this is where.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.causes.limits import LIKELY, SURE
from divergraph.rootcause.tolerances.contract import OpContext, input_quantisers, outputs_on
from graphstore.model import ErrorSplit, Finding, FindingKind, Guilt, Op, Role, TensorRef
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
"""Ops that compare values: devices differ in what these return for NaN."""


def is_nonfinite_origin(
    device: Array, reference: Array, golden: Array, inputs: Mapping[str, Array], ops: Iterable[Op]
) -> bool:
    """Whether reference and device both turn finite inputs into NaN or Inf, or infinite inputs
    into NaN, where golden is finite. All arrays have one shape, except *inputs*. A number that one
    of the *ops* has as an attribute, such as what a mask is filled with, is fed to it as well."""
    if reference.dtype.kind not in "fc" or device.dtype.kind not in "fc" or not inputs:
        return False
    if golden.dtype.kind not in "fc":
        return False
    broken = ~np.isfinite(reference)
    if not broken.any() or not np.all(np.isfinite(golden[broken])):
        return False
    if np.all(np.isfinite(device[broken])):
        return False
    float_inputs = [value for value in inputs.values() if value.dtype.kind in "fc"]
    numbers = (value for op in ops for value in op.attrs.values() if isinstance(value, float))
    float_inputs.append(np.array([*numbers]))
    if all(bool(np.isfinite(value).all()) for value in float_inputs):
        return True
    # Infinite inputs may be a mask's, which is no fault; only NaN made of them is new.
    fed_nan = any(bool(np.isnan(value).any()) for value in float_inputs)
    return not fed_nan and bool(np.isnan(device[np.isnan(reference) & np.isfinite(golden)]).any())


def is_made_by_steps(context: OpContext, reference: Array) -> bool:
    """Whether quantising the inputs made every NaN or Inf of the *reference*: half a step beside,
    from where values are rounded to these inputs, the same ops give numbers.

    So the logarithm of what became 0 is no error but one that a quantiser of the model makes, next
    to a place where any step is too wide.
    """
    steps = {
        name: float(np.max(quantiser.scale)) / 2 for name, quantiser in input_quantisers(context)
    }
    if not steps:
        return False
    shifted_feeds = [
        {
            name: value + value.dtype.type(sign * steps.get(name, 0.0))
            for name, value in context.given.items()
        }
        for sign in (1, -1)
    ]
    outputs = outputs_on(context, shifted_feeds, reference.shape)
    return bool(np.all(np.isfinite([reference, *outputs]).any(axis=0)))


def ignores_nan(
    device: Array, reference: Array, inputs: Mapping[str, Array], types: Collection[str]
) -> bool:
    """Whether the reference is NaN everywhere because of its inputs, yet the device is finite.

    Ops that compare (*types*) are excepted: what they return for NaN is not defined.
    """
    if reference.dtype.kind != "f" or device.dtype.kind != "f" or not reference.size:
        return False
    if _HEALING.intersection(types) or not np.isnan(reference).all():
        return False
    fed = any(
        op_input.dtype.kind == "f" and np.isnan(op_input).any() for op_input in inputs.values()
    )
    return fed and bool(np.isfinite(device).all())


def ignoring(output: TensorRef) -> Finding:
    """The finding about an output that does not show the NaN of its inputs."""
    return Finding(
        FindingKind.CAUSE,
        IGNORED,
        "its inputs make every value NaN, yet the device has numbers: they were not computed "
        "from the inputs that were dumped",
        output.op,
        port=output.port,
        confidence=LIKELY,
    )


def with_nonfinite_origins(
    arrays: GraphArrays,
    splits: Mapping[TensorRef, ErrorSplit],
    nonfinite: Mapping[TensorRef, bool],
    broken: Mapping[str, bool],
) -> tuple[dict[TensorRef, ErrorSplit], list[Finding]]:
    """*splits* with the outputs *nonfinite* judged, and a finding for each of these.

    An output with a guilty op upstream keeps its split. Else it is guilty if it reaches an output
    of the model that is *broken* (over a limit; true: with NaN or infinities) and that no guilty op
    explains. NaN and infinities are only explained by an op that makes some. An output whose damage
    later ops heal is suspect; where the steps of a quantiser made it (true in *nonfinite*), it is
    healed once values are finite again, as all else is what quantising costs.
    """
    guilty = {ref: split for ref, split in splits.items() if split.guilt is Guilt.GUILTY}
    explained = _reached(arrays, {ref.op for ref in guilty})
    lost = {ref.op for ref, split in guilty.items() if not math.isfinite(split.introduced or 0.0)}
    by_lost = _reached(arrays, lost)
    unexplained = {
        op for op, is_lost in broken.items() if op not in (by_lost if is_lost else explained)
    }
    still_lost = {op for op in unexplained if broken[op]}
    completed = dict(splits)
    findings: list[Finding] = []
    for ref in sorted(nonfinite, key=lambda ref: arrays.number[ref.op]):
        if ref.op in explained:
            continue
        later_ops = _reached(arrays, {ref.op})
        harm = not later_ops.isdisjoint(still_lost if nonfinite[ref] else unexplained)
        guilt = Guilt.GUILTY if harm else Guilt.SUSPECT
        completed[ref] = replace(
            completed[ref], guilt=guilt, suspicion=math.inf, role=Role.AMPLIFIES
        )
        explained |= later_ops - {ref.op}
        findings.append(
            Finding(
                FindingKind.CAUSE,
                LABEL,
                "NaN or infinities arise here from inputs without NaN, in the original op as well: "
                "its inputs on the device hold values that golden's do not, such as 0 "
                "where rounding removed a small number, or infinity for a large one",
                ref.op,
                port=ref.port,
                confidence=SURE,
            )
        )
    return completed, findings


def _reached(arrays: GraphArrays, ops: Collection[str]) -> set[str]:
    """The *ops* and everything downstream of them."""
    numbers = [arrays.number[op] for op in ops]
    return {*ops, *(arrays.ids[n] for n in descendants(arrays, numbers))}
