"""The groups of ops whose errors are of one family of products, and those a device is known by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import Family, factors_of, family_of
from divergraph.rootcause.groups.groups import (
    FEW_GROUPS,
    MANY_GROUPS,
    SEVERAL,
    Group,
    sampled_groups,
)
from divergraph.rootcause.groups.op_graph import OpGraph
from graphstore.model import Shape


def family_of_group(group: Group, golden: OpGraph) -> Family | None:
    """The one family of products that *group* computes; None if it has none or several."""
    ops = (golden.ops[op_id] for op_id in group.ops if op_id in golden.ops)
    families = {family_of(op, golden) for op in ops} - {None}
    return families.pop() if len(families) == 1 else None


def products_like(group: Group, golden: OpGraph) -> object:
    """What the products of *group* err like, None if it has none: those of one family, each way of
    a recorded call by itself. A way back of convolutions errs like no other: it adds up over
    channels, places or samples, by the kernel that is fastest for so many. PyTorch rounds each term
    to bfloat16 where these are few, as those of one channel or of a small image are."""
    family = family_of_group(group, golden)
    direction = golden.ops[group.golden.op].attrs.get("direction", "forward")
    convolves = family in (Family.CONVOLUTION, Family.GROUPED, Family.TRANSPOSED)
    return None if convolves and direction != "forward" else family and (family, direction)


def groups_by_family(groups: Iterable[Group], golden: OpGraph) -> dict[Family, list[Group]]:
    """The groups that can be run and compute products of one family."""
    by_family: dict[Family, list[Group]] = {}
    for group in groups:
        if not group.failure and group.is_passthrough is None:
            family = family_of_group(group, golden)
            if family is not None:
                by_family.setdefault(family, []).append(group)
    return by_family


def sampled_by_family(
    groups: Iterable[Group], golden: OpGraph, *, rounds: bool
) -> Iterator[tuple[Group, Family]]:
    """The groups to learn a device's arithmetic from, with their family: the shortest, longer ones
    only where too few are left, as other ops in a group add errors of their own. Where the value
    type *rounds*, the longest sums are among them: in these errors show that others have no room
    for."""
    weights = {constant.tensor.name: constant.tensor.shape for constant in golden.graph.constants}
    for family, own_groups in groups_by_family(groups, golden).items():
        sizes = sorted(len(group.ops) for group in own_groups)
        op_limit = max(sizes[0] + 1, sizes[: calibration.ENOUGH_OPS][-1])
        short = [group for group in own_groups if len(group.ops) <= op_limit]
        sampled = sampled_groups(short, FEW_GROUPS if rounds else MANY_GROUPS)
        if rounds:
            terms = {group: _terms(group, golden, weights) for group in short}
            longest = sorted(short, key=terms.__getitem__, reverse=True)[:SEVERAL]
            sampled = list(dict.fromkeys((*longest, *sampled)))
        yield from ((group, family) for group in sampled)


def _terms(group: Group, golden: OpGraph, weights: Mapping[str, Shape | None]) -> int:
    """The terms of the longest sum of a product with *weights*, given by shape, in *group*."""
    terms = (
        shape[factor.axis]
        for op in (golden.ops[op_id] for op_id in group.ops)
        if family_of(op, golden) is Family.LINEAR
        for factor in factors_of(op, golden)
        if (shape := weights.get(factor.tensor))
    )
    return max((size for size in terms if isinstance(size, int)), default=0)
