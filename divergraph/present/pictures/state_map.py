"""Maps of states: the layers of a job on its ranks, the originals of a model in its runs. One
description; :func:`divergraph.present.pictures.svg.state_map` and the terminal draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from divergraph.ask.questions.model import ModelAnswer, RunOfModel
from divergraph.ask.questions.ranks import RankMap
from divergraph.text.words import counted
from graphstore.model import OpState


@dataclass(frozen=True, slots=True)
class StateCell:
    """A field of the map: its place, the state that colours it, the op of a run that it stands for
    (empty: the run itself), and what it says."""

    row: int
    column: int
    state: OpState
    run: str
    op: str
    text: str


@dataclass(frozen=True, slots=True)
class StateMap:
    """Names of rows and columns, and the fields that are there; ``across`` says what the columns
    are, ``words`` say the map to who cannot see it."""

    across: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[StateCell, ...]
    words: str

    @property
    def legend(self) -> tuple[OpState, ...]:
        """The states that occur, worst ones first."""
        states = {cell.state for cell in self.cells}
        return tuple(state for state in OpState if state in states)


def rank_map(answer: RankMap) -> StateMap:
    """A row for each layer and way, a column for each rank."""
    rows: dict[tuple[str, str], int] = {}
    for layer in answer.layers:
        rows.setdefault((layer.layer, layer.way), len(rows))
    column = {rank: number for number, rank in enumerate(answer.ranks)}
    cells = []
    for layer in answer.layers:
        said = (
            f"{layer.layer or 'no module'} {layer.way}, rank {layer.rank}: {layer.state.value}, "
            f"{layer.over} of {counted(layer.ops, 'op')} over a limit; {layer.worst}"
            f"{_error('relative error', layer.relative)}"
        )
        place = rows[layer.layer, layer.way], column[layer.rank]
        cells.append(StateCell(*place, layer.state, answer.run, layer.worst, said))
    layers = len({layer for layer, _ in rows})
    return StateMap(
        "rank",
        tuple(", ".join(filter(None, (layer or "no module", way))) for layer, way in rows),
        tuple(map(str, answer.ranks)),
        tuple(cells),
        f"{counted(layers, 'layer')} on {counted(len(answer.ranks), 'rank')}, by state",
    )


def model_map(answer: ModelAnswer) -> StateMap:
    """A row for each original, a column for each run; above them how runs passed the gate."""
    originals, runs = answer.originals, tuple(run.run for run in answer.runs)
    gate = [
        _gate_cell(number, run) for number, run in enumerate(answer.runs) if run.passed is not None
    ]
    rows = {original: number for number, original in enumerate(originals, start=bool(gate))}
    column = {run: number for number, run in enumerate(runs)}
    cells = (
        StateCell(
            *(rows[op.original], column[op.run], op.state, op.run, op.op),
            f"{op.original} in {op.run}: {op.state.value}"
            f"{'' if op.change is None else f', {op.change.value}'}; {op.op}"
            f"{_error('error', op.error)}",
        )
        for op in answer.ops
    )
    words = f"{counted(len(originals), 'original')} in {counted(len(runs), 'run')}, by state"
    names = (*(["gate"] if gate else []), *originals)
    return StateMap("run", names, runs, (*gate, *cells), words)


def _gate_cell(column: int, run: RunOfModel) -> StateCell:
    said = f"{run.run} passes the gate" if run.passed else f"{run.run} does not pass the gate"
    if run.worse:
        said += f": {counted(len(run.worse), 'op')} worse than in the baseline"
    state = OpState.CLEAN if run.passed else OpState.ORIGIN
    return StateCell(0, column, state, run.run, run.worse[0] if run.worse else "", said)


def _error(what: str, error: float | None) -> str:
    return "" if error is None else f", {what} {error:.3g}"


STATE_MAPS: Mapping[str, Callable[[Any], StateMap]] = {"model": model_map, "ranks": rank_map}
"""By question, what makes the map of its answer."""
