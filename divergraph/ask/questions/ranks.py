"""In which layers of which ranks of a job an error starts, and which it reaches."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from divergraph.ask.facts import find_run, load_facts
from divergraph.ask.op_attributes import all_attributes
from divergraph.ask.op_order import STARTS_FIRST
from divergraph.ask.question import Parameter, Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.columns.op_attributes import rank_texts
from graphstore.columns.op_columns import OpColumns
from graphstore.contract import GraphStore
from graphstore.errors import InputError, UnknownNameError
from graphstore.model import Level, OpState
from importers.msprobe.calls import CallName


@dataclass(frozen=True, slots=True)
class RankLayer:
    """The ops of one layer on one rank; one between ranks counts on each of them."""

    layer: Annotated[str, "as blocks.0; the first module's name where none is numbered"]
    way: Annotated[str, "forward or backward; empty outside of modules, as in the optimizer"]
    rank: int
    ops: int
    over: Annotated[int, "how many of them have an output over a limit"]
    state: Annotated[OpState, "the worst of any of them"]
    worst: Annotated[
        str,
        Parameter("an op of that state: the first of those with the largest error", op_of="run"),
    ]
    relative: Annotated[float | None, "its relative error"]


@dataclass(frozen=True, slots=True)
class RankMap:
    """The layers of a job in the order in which they run, each on all ranks that have it."""

    run: str
    ranks: tuple[int, ...]
    layers: tuple[RankLayer, ...]


@dataclass(frozen=True, slots=True)
class RanksQuestion(Question[RankMap]):
    """Where is the error of a job, by rank and layer?"""

    name = "ranks"
    example = "divergraph ranks RUN"

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> RankMap:
        """Each layer on each of its ranks.

        Raises:
            UnknownNameError: no such run.
            InputError: its device graph is not a job of several ranks.
        """
        if find_run(store, self.run) is None:
            raise UnknownNameError("run", self.run)
        ops = load_facts(store, self.run).rows
        members: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        # Names tell at once what else the attributes of a million ops would have to be read for.
        is_job = any(op.startswith("rank") for op in ops.ids)
        for number, texts in enumerate(all_attributes(store, self.run, ops) if is_job else ()):
            for rank in rank_texts(texts):
                members[*_place_of(ops.ids[number]), int(rank)].append(number)
        ranks = sorted({rank for _, _, rank in members})
        if not ranks:
            raise InputError(
                f"{self.run} is not a run of a job of several ranks",
                hint="compare folders that have rank0, rank1, ... below a step",
            )
        first = {(layer, way): numbers[0] for (layer, way, _), numbers in reversed(members.items())}
        layers = sorted(members, key=lambda place: (first[place[:2]], place[2]))
        return RankMap(
            self.run,
            tuple(ranks),
            tuple(_row(ops, *place, members[place]) for place in layers),
        )


QUESTION = RanksQuestion


def _place_of(op: str) -> tuple[str, str]:
    """The layer and the way of an op of a job, by the innermost module that calls it."""
    # few ask this question, and all load it
    from divergraph.layouts.twins import ModuleCall
    from importers.msprobe.job_names import split_rank

    calls = split_rank(op)[1].split("/")
    modules = [module for module in map(ModuleCall.of, calls) if module is not None]
    if not modules and len(calls) > 1:
        return calls[0], ""
    ways = {CallName.of(call).way for call in calls}
    way = "forward" if ways <= {"forward", ""} else "backward"
    return _layer(modules[-1].path) if modules else "", way


def _layer(path: str) -> str:
    """``blocks.0`` of ``blocks.0.attn.q``, ``norm`` of a module that is in no numbered one."""
    parts = path.split(".")
    numbered = next((at for at, part in enumerate(parts) if part.isdecimal()), 0)
    return ".".join(parts[: numbered + 1])


def _row(ops: OpColumns, layer: str, way: str, rank: int, numbers: list[int]) -> RankLayer:
    places = np.array(numbers)
    states = [state or OpState.NOT_COMPARED for state in ops.states.listed(places)]
    worst = min(states, key=STARTS_FIRST.index)
    errors = np.nan_to_num(ops.relative_errors[places], nan=-1.0, posinf=np.inf)
    errors[[state is not worst for state in states]] = -2.0  # below those of its state
    at = int(np.argmax(errors))
    over = int(np.count_nonzero(ops.levels.take(places).equal(Level.FAIL)))
    relative = float(errors[at]) if errors[at] >= 0.0 else None
    return RankLayer(layer, way, rank, len(numbers), over, worst, ops.ids[numbers[at]], relative)
