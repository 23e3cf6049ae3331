"""Which ops of either side have no counterpart on the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.question import Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Reason, Side, TensorIO


@dataclass(frozen=True, slots=True)
class UnmatchedGoldenOp:
    """A golden op no device op stands for."""

    op: str
    type: str


@dataclass(frozen=True, slots=True)
class UnmatchedDeviceOp:
    """A device op with no original, or with an output no golden tensor was found for."""

    op: str
    type: str
    reason: Annotated[Reason | None, "null where every output was compared all the same"] = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class UnmatchedOps:
    """The ops of both sides of a run that stand for nothing on the other, in topo order."""

    run: str
    device: tuple[UnmatchedDeviceOp, ...]
    golden: tuple[UnmatchedGoldenOp, ...]


@dataclass(frozen=True, slots=True)
class UnmatchedQuestion(Question[UnmatchedOps]):
    """Which ops of either side have no counterpart, and why?"""

    name = "unmatched"
    command = "lineage --unmatched"

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> UnmatchedOps:
        """Those of both sides, in execution order.

        Raises:
            UnknownNameError: no such run.
        """
        store.run(self.run)
        links = store.links(self.run)
        linked, used = {link.device for link in links}, {link.original for link in links}
        why: dict[str, Comparison] = {}
        open_ops: set[str] = set()
        for item in store.comparisons(self.run):
            if item.io is TensorIO.OUTPUT and item.reason is not None:
                why.setdefault(item.op, item)
                if item.reason in _OPEN:
                    open_ops.add(item.op)
                    why[item.op] = item
        device = [
            UnmatchedDeviceOp(op, kind, why[op].reason, why[op].detail or None)
            if op in why
            else UnmatchedDeviceOp(op, kind)
            for op, kind in _types(store, self.run, Side.DEVICE)
            if op not in linked or op in open_ops
        ]
        golden = (
            UnmatchedGoldenOp(op, kind)
            for op, kind in _types(store, self.run, Side.GOLDEN)
            if op not in used
        )
        return UnmatchedOps(self.run, tuple(device), tuple(golden))


QUESTION = UnmatchedQuestion

_OPEN = frozenset({Reason.UNKNOWN_ORIGINAL, Reason.UNMATCHED, Reason.LOW_CONFIDENCE})


def _types(store: GraphStore, run: str, side: Side) -> Iterable[tuple[str, str]]:
    """The ops of one side with their types."""
    ids = store.arrays(run, side).ids
    for part in store.listed_ops(run, side):
        yield from zip(ids[part.first : part.first + len(part)], part.types, strict=True)
