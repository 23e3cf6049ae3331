"""A single op."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.answers import OpDetail
from divergraph.ask.details import op_detail
from divergraph.ask.question import OneSide, OpName, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Side


@dataclass(frozen=True, slots=True)
class OpQuestion(Question[OpDetail]):
    """What is known of one op: attributes, tensors, lineage, and why it has its state?"""

    name = "op"
    graphs = True
    shapes = ("OpAnswer",)

    run: TargetName
    op: OpName
    side: OneSide = Side.DEVICE

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> OpDetail:
        """All of it.

        Raises:
            UnknownNameError: no such op.
        """
        return op_detail(store, self.run, self.op, self.side)


QUESTION = OpQuestion
