"""Which device ops replace the same originals together.

The grouping follows the reference comparator: ops of one L1 fusion, or ops split from
one original, are one group; an op fused from several originals is a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphstore.model import Op

L1_FUSION = "_L1_fusion_sub_graph_no"
MULTI_OP = "_datadump_is_multiop"


def original_names(op: Op) -> tuple[str, ...]:
    """The originals of *op*: its own name where the graph says nothing, () if inserted."""
    return (op.name,) if op.original_names is None else op.original_names


def fusion_key(op: Op) -> tuple[str, ...]:
    """Equal for exactly the ops that form one group."""
    fusion_number = op.attrs.get(L1_FUSION)
    if fusion_number not in (None, ""):
        return ("l1", str(fusion_number))
    names = original_names(op)
    if len(names) == 1:
        return ("one", names[0])
    if not names:
        return ("one", op.name)
    return ("many", *names)


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Device ops that stand together for ``originals``, in execution order."""

    key: tuple[str, ...]
    ops: tuple[Op, ...]

    @property
    def originals(self) -> tuple[str, ...]:
        """All originals of the group, each once, in the order met."""
        return tuple(dict.fromkeys(name for op in self.ops for name in original_names(op)))


def fusion_groups(ops: Iterable[Op]) -> list[FusionGroup]:
    """The groups of *ops*, ordered by their first op."""
    members: dict[tuple[str, ...], list[Op]] = {}
    for op in ops:
        members.setdefault(fusion_key(op), []).append(op)
    return [FusionGroup(key, tuple(group)) for key, group in members.items()]
