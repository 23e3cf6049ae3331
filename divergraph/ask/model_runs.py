"""Which runs are of one model, although its golden graph was exported or trained again."""

from __future__ import annotations

from collections.abc import Iterable

from graphstore.contract import GraphStore
from graphstore.model import Run, Side

_SAME_MODEL = 0.8
"""The share of op names that two golden graphs must have in common to be of one model."""


def models_of(store: GraphStore, runs: Iterable[Run]) -> dict[str, str]:
    """The golden graphs of *runs*, each by the first one that is the same model.

    A model exported or trained again is another file whose graph has the same name; but some
    exporters give all models one name, so most op names must agree, too.
    """
    alike: dict[str, dict[str, Run]] = {}
    for run in runs:
        alike.setdefault(model_name(run.golden), {}).setdefault(run.golden, run)
    models: dict[str, str] = {}
    for graphs in alike.values():
        if len(graphs) == 1:
            models |= {golden: golden for golden in graphs}
            continue
        first: dict[str, frozenset[str]] = {}
        for golden, run in graphs.items():
            ops = frozenset(store.arrays(run.name, Side.GOLDEN).ids)
            same = (one for one, shared_ops in first.items() if _are_most_shared(ops, shared_ops))
            models[golden] = next(same, golden)
            first.setdefault(models[golden], ops)
    return models


def model_name(golden: str) -> str:
    """The name of a golden graph without the hash of its file."""
    return golden.rpartition("@")[0] or golden


def _are_most_shared(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _SAME_MODEL * len(one | other)
