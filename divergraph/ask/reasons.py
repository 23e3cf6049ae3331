"""Why tensors were not compared, counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from divergraph.ask.answers import ReasonGroup
from graphstore.columns.listed_ops import ListedResults
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

    def add_all(self, results: ListedResults, first: int, ids: Sequence[str]) -> None:
        """Count those of a slice of the ops *ids* that starts at *first*."""
        counts = results.ports >= 0
        for reason in results.reasons.values:
            if reason is None:
                continue
            rows = np.flatnonzero(results.reasons.equal(reason) & counts)
            self.counts[reason] = self.counts.get(reason, 0) + len(rows)
            ops = self.examples.setdefault(reason, [])
            numbers = np.sort(np.unique(results.ops[rows], return_index=True)[1])[:_EXAMPLES]
            ops += [ids[first + number] for number in results.ops[rows[numbers]].tolist()]
            del ops[_EXAMPLES:]

    def groups(self) -> list[ReasonGroup]:
        """The reasons, the most frequent first."""
        groups = [
            ReasonGroup(reason, count, tuple(self.examples[reason]))
            for reason, count in self.counts.items()
            if count
        ]
        return sorted(groups, key=lambda group: (-group.count, group.reason.value))


def reason_groups(comparisons: Iterable[Comparison]) -> list[ReasonGroup]:
    """Tensors not compared by reason, the most frequent first."""
    counter = ReasonCounter()
    for item in comparisons:
        counter.add(item)
    return counter.groups()
