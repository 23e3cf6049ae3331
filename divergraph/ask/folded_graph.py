"""One side of a run folded by name spaces, with what its ops are coloured by; kept for the next
question about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.changed_ops import changed_ops
from divergraph.ask.facts import find_run
from divergraph.ask.folding import FoldedOps, folded
from divergraph.ask.op_order import STARTS_FIRST
from divergraph.ask.questions.blame import blame_shares
from divergraph.ask.questions.compare_runs import ChangeKind
from graphstore.columns.coded import Float
from graphstore.columns.link_columns import LinkColumns
from graphstore.columns.op_figures import FIGURES as STORED_FIGURES
from graphstore.columns.op_figures import WORST_IS_LEAST
from graphstore.contract import GraphStore
from graphstore.model import OpState, Run, Side
from graphstore.recent import Recent
from graphstore.traverse.arrays import GraphArrays

BLAME_SHARE = "blame_share"
"""Of an op in the error of the outputs, where `blame` was asked."""
FIGURES = (*STORED_FIGURES, BLAME_SHARE)
"""What nodes can be coloured by, beside their state."""
NO_STATE, UNCHANGED = len(STARTS_FIRST), len(ChangeKind)
_PARTNERS = 50
_FEW = 2
"""Both sides of a run, however large."""
_OP_BYTES = 300


@dataclass(frozen=True, eq=False)
class FoldedGraph:
    """The ops of one side in topo order, folded.

    ``ranks`` says how bad the state of each is, a place in ``STARTS_FIRST`` or ``NO_STATE``;
    ``change_ranks`` how it changed since another run, a place in ``ChangeKind`` or ``UNCHANGED``;
    ``figures`` have NaN where there is none. Originals have the worst of their device ops.
    """

    side: Side
    runs: tuple[Run | None, Run | None]
    """The run, and the older one it is held against."""
    arrays: GraphArrays
    folds: FoldedOps
    links: LinkColumns | None
    ranks: NDArray[np.int64]
    change_ranks: NDArray[np.int64]
    figures: Mapping[str, Float]

    def partners(self, number: int) -> tuple[str, ...]:
        """The first ops of the other side that op *number* is linked with."""
        if self.links is None:
            return ()
        ids = self.links.ids[Side.GOLDEN if self.side is Side.DEVICE else Side.DEVICE]
        return tuple(ids[one] for one in self.links.partners(self.side, number)[:_PARTNERS])


_CACHE: WeakKeyDictionary[GraphStore, Recent[FoldedGraph]] = WeakKeyDictionary()
_CACHE_LOCK = Lock()


def folded_graph(store: GraphStore, target: str, side: Side, against: str = "") -> FoldedGraph:
    """One side of a run, or an imported graph; with *against*, how its ops changed since that
    older run.

    Raises:
        UnknownNameError: no such run or graph.
        InputError: the runs have no original tensor in common.
    """
    runs = find_run(store, target), store.run(against) if against else None
    with _CACHE_LOCK:
        recent = _CACHE.setdefault(store, Recent(_FEW, size=_about_bytes))
    return recent.get(
        "\0".join((side.value, target, against)),
        lambda: _read(store, target, side, runs),
        lambda kept: kept.runs == runs,
    )


def _about_bytes(kept: FoldedGraph) -> int:
    return len(kept.arrays.ids) * _OP_BYTES


def _read(
    store: GraphStore, target: str, side: Side, runs: tuple[Run | None, Run | None]
) -> FoldedGraph:
    arrays, (run, older) = store.arrays(target, side), runs
    links, figures = None, dict[str, Float]()
    ranks = np.full(len(arrays.ids), NO_STATE, dtype=np.int64)
    if run is not None and side is Side.DEVICE:
        links = store.link_columns(target)
        ranks, figures = _measured(store, run)
    elif run is not None:  # whoever sees originals sees the device's side, too
        device = folded_graph(store, target, Side.DEVICE, older.name if older else "")
        links = device.links
        assert links is not None, "a run has links"
        np.minimum.at(ranks, links.originals, device.ranks[links.devices])
        figures = {
            name: _of_originals(name, values, links, len(ranks))
            for name, values in device.figures.items()
        }
    changes = np.full(len(ranks), UNCHANGED, dtype=np.int64)
    if older is not None:
        changed = changed_ops(store, older.name, target, side)
        _set(changes, arrays, {op: _CHANGES.index(kind) for op, kind in changed.items()})
    folds = folded(arrays.ids)
    return FoldedGraph(side, runs, arrays, folds, links, ranks, changes, figures)


_CHANGES = tuple(ChangeKind)


def _measured(store: GraphStore, run: Run) -> tuple[NDArray[np.int64], dict[str, Float]]:
    """The ranks and the figures of the device ops of *run*."""

    def rank(state: OpState | None) -> float:
        return NO_STATE if state is None else STARTS_FIRST.index(state)

    stored = store.op_figures(run.name)
    blame = np.full(len(stored.states), np.nan)
    _set(blame, store.arrays(run.name), blame_shares(run))
    ranks = stored.states.keyed(rank).astype(np.int64)
    return ranks, {**stored.numbers, BLAME_SHARE: blame}


def _set(
    values: NDArray[np.float64] | NDArray[np.int64], arrays: GraphArrays, of_op: Mapping[str, float]
) -> None:
    """Put the numbers *of_op* where the ops stand that there are."""
    for op, value in of_op.items():
        if op in arrays.number:
            values[arrays.number[op]] = value


def _of_originals(name: str, values: Float, links: LinkColumns, count: int) -> Float:
    """The worst figure among the device ops of each original."""
    worst = np.full(count, np.nan)
    pick = np.fmin if name == WORST_IS_LEAST else np.fmax
    pick.at(worst, links.originals, values[links.devices])
    return worst


def worst_of(name: str, values: Float) -> float | None:
    """The worst of the figures *name*; None if there is none."""
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return None
    return float(numbers.min() if name == WORST_IS_LEAST else numbers.max())
