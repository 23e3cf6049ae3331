"""Why tensors were not compared, counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from divergraph.ask.answers import ReasonGroup
from graphstore.model import Comparison, Reason

_EXAMPLES = 3


@dataclass
class ReasonCounter:
    """Counts the reasons of comparisons as they come, with the first few ops of each."""

    counts: dict[Reason, int] = field(default_factory=dict)
    examples: dict[Reason, list[str]] = field(default_factory=dict)

    def add(self, item: Comparison) -> None:
        """Count *item*; ops without any output have nothing to compare and do not count."""
        if item.reason is None or item.port < 0:
            return
        self.counts[item.reason] = self.counts.get(item.reason, 0) + 1
        ops = self.examples.setdefault(item.reason, [])
        if len(ops) < _EXAMPLES and item.op not in ops:
            ops.append(item.op)

    def groups(self) -> list[ReasonGroup]:
        """The reasons, the most frequent first."""
        groups = [
            ReasonGroup(reason, count, tuple(self.examples[reason]))
            for reason, count in self.counts.items()
        ]
        return sorted(groups, key=lambda group: (-group.count, group.reason.value))


def reason_groups(comparisons: Iterable[Comparison]) -> list[ReasonGroup]:
    """Tensors not compared by reason, the most frequent first."""
    counter = ReasonCounter()
    for item in comparisons:
        counter.add(item)
    return counter.groups()
