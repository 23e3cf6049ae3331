"""Which device ops replace the same originals together.

The grouping follows the reference comparator: ops of one L1 fusion, or ops split from one original,
form a group; an op fused from several originals forms one with ops of the same originals.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphstore.model import Op

L1_FUSION = "_L1_fusion_sub_graph_no"
MULTI_OP = "_datadump_is_multiop"


def fusion_key(op: Op) -> tuple[str, ...]:
    """Equal for exactly the ops that form one group."""
    fused = op.attrs.get(L1_FUSION)
    if fused is not None and fused != "":
        return ("l1", str(fused))
    if not op.original_names:
        return ("one", op.id)
    if len(op.original_names) == 1:
        return ("one", op.original_names[0])
    return ("many", *op.original_names)


def fusion_groups(ops: Iterable[Op]) -> list[list[Op]]:
    """The groups of *ops* by their first op; a group's place is the Index of the report.

    Inside a group ops are in execution order.
    """
    groups: dict[tuple[str, ...], list[Op]] = {}
    for op in ops:
        groups.setdefault(fusion_key(op), []).append(op)
    return [sorted(group, key=lambda op: op.sequence) for group in groups.values()]
