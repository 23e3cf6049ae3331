"""A graph folded by name spaces, one group at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.facts import resolve_op
from divergraph.ask.graph_levels import GraphLevel, GraphLevels
from divergraph.ask.question import OneSide, Parameter, Question, TargetName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Side


@dataclass(frozen=True, slots=True)
class GraphQuestion(Question[GraphLevel]):
    """What does a graph look like, folded by name spaces, with the worst state inside each?"""

    name = "graph"
    example = "divergraph graph RUN"
    graphs = True
    table = "nodes"

    run: TargetName
    group: Annotated[
        int, Parameter("What is in this group; 0: the whole graph.", minimum=0, is_argument=False)
    ] = 0
    op: Annotated[str, Parameter("What is in the group of this op.", is_argument=False)] = ""
    side: OneSide = Side.DEVICE
    against: Annotated[
        str, Parameter("An older run: how ops changed since.", is_run=True, is_argument=False)
    ] = ""

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> GraphLevel:
        """One group of the graph.

        Raises:
            UnknownNameError: no such run or op.
            InputError: no such group, or nothing in common with the run ``against``.
        """
        levels, group = GraphLevels(store, self.run, self.side, self.against), self.group
        if self.op:
            group = levels.holding(resolve_op(store, self.run, self.op, self.side))
        return levels.level(group)


QUESTION = GraphQuestion
