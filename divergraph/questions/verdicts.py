"""A run as the comparison that made it printed it, what was found in it, and its single ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.answers import OpDetail
from divergraph.ask.details import op_detail
from divergraph.ask.facts import load_facts
from divergraph.ask.question import OneSide, OpName, Parameter, RunName, TargetName
from divergraph.ask.single_ops.neighbourhood import OpsAround, neighbourhood
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.op import neighbourhood_json, op_json
from divergraph.present.json.shapes import Json, run_json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.model import Comparison, Origin, Run, Side


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run of a store, with all its comparisons; ``types`` are those of its ops."""

    run: Run
    origins: Sequence[Origin]
    comparisons: Sequence[Comparison]
    types: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunQuestion(WrittenQuestion[KeptRun]):
    """What came of a comparison?"""

    name = "verdict"
    command = "compare"
    path = "/runs/{run}"
    shapes = ("RunAnswer",)

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> KeptRun:
        """The run with what its answer is made of."""
        record = store.run(self.run)
        rows = load_facts(store, self.run).rows
        types = dict(zip(rows.ids, rows.types, strict=True))
        return KeptRun(record, store.origins(self.run), store.comparisons(self.run), types)

    def json(self, answer: KeptRun) -> Mapping[str, Json]:
        """What ``compare`` printed."""
        return run_json(answer.run, answer.origins, answer.comparisons, answer.types)


@dataclass(frozen=True, slots=True)
class OpQuestion(WrittenQuestion[OpDetail]):
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

    def json(self, answer: OpDetail) -> Mapping[str, Json]:
        """What ``op`` prints."""
        return op_json(self.run, answer)


@dataclass(frozen=True, slots=True)
class NeighbourhoodQuestion(WrittenQuestion[OpsAround]):
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

    def json(self, answer: OpsAround) -> Mapping[str, Json]:
        """What ``op --depth`` prints."""
        return neighbourhood_json(self.run, answer)
