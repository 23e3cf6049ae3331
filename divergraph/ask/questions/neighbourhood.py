"""The ops around an op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.neighbourhood import OpsAround, neighbourhood
from divergraph.ask.question import OneSide, OpName, Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Side


@dataclass(frozen=True, slots=True)
class NeighbourhoodQuestion(Question[OpsAround]):
    """Which ops does an op read from, and which read it, ``depth`` steps each way?"""

    name = "neighbourhood"
    command = "op --depth"
    graphs = True
    shapes = ("NeighbourhoodAnswer",)

    run: TargetName
    op: OpName
    depth: Annotated[int, Parameter("So many steps each way.", minimum=1, maximum=100)]
    side: OneSide = Side.DEVICE

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> OpsAround:
        """These ops, and how far they are.

        Raises:
            UnknownNameError: no such op.
        """
        return neighbourhood(store, self.run, self.op, self.depth, self.side)


QUESTION = NeighbourhoodQuestion
