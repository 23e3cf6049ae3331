"""Sums of products a device computes in integers where the golden model quantises by itself.

A QLinearConv is golden's Conv between its quantisers, to the last step: integers are added
without rounding. A Softmax in integers comes out of a table and may be a step off anywhere.
So groups whose only kernels in integers are sums of products have no floor of unseen
quantising, unless most of them show that this device does something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from divergraph.rootcause import calibration
from divergraph.rootcause.devices.arithmetic import ratio_of
from divergraph.rootcause.devices.quantisers import quantises
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.groups.groups import Group, some
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.tolerances.noise_floor import Floors

_PRODUCTS = ("Conv", "MatMul", "Gemm")
_LOOKED_AT = 8
_DRAWS = 4
"""A floor may be too low by chance: values next to a tie go either way."""


def without_exact_kernels(
    golden: OpGraph,
    groups: Sequence[Group],
    samples: Callable[[Sequence[Group]], Iterable[GroupSample]],
    floors: Floors,
) -> Sequence[Group]:
    """*groups*, without ``kernels`` where these are exact on the device.

    *samples* runs groups.
    """
    products = [group for group in groups if _is_of_products(golden, group)]
    agreeing = [_agrees(sample, floors) for sample in samples(some(products, _LOOKED_AT, 4))]
    if not any(agreeing) or 2 * sum(agreeing) < len(agreeing):
        return groups
    exact = {group.output for group in products}
    return [
        replace(group, kernels=frozenset()) if group.output in exact else group for group in groups
    ]


def _is_of_products(golden: OpGraph, group: Group) -> bool:
    """Whether golden quantises in a group the device computes by products of integers."""
    if not group.kernels or group.failure or group.is_passthrough is not None:
        return False
    if not all(any(each in kernel for each in _PRODUCTS) for kernel in group.kernels):
        return False
    return any(quantises(golden.ops[op_id].type) for op_id in group.ops)


def _agrees(sample: GroupSample, floors: Floors) -> bool:
    """Whether the device made what the reference is, but for values next to a tie."""
    ratios = (ratio_of(sample, floors) for _ in range(_DRAWS))
    return any(each is not None and each <= calibration.QUANTISED_AGREES for each in ratios)
