"""The first ops of a graph that show a problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from graphstore.model import EvidenceValue, Finding, FindingKind, TensorIO
from graphstore.traverse.algorithms import descendants, first_diverging, nearest_measured_ancestors
from graphstore.traverse.arrays import Bool, GraphArrays


@dataclass(frozen=True, slots=True)
class FirstOp:
    """An op that shows a problem none of the nearest measured ops before it has. ``later`` counts
    the ops after it that show it, too; ``known`` is false if nothing before it was measured."""

    op: str
    later: int
    known: bool


def first_ops(
    arrays: GraphArrays, measured: Iterable[str], showing: Iterable[str]
) -> Iterator[FirstOp]:
    """The first of the ops *showing* a problem, in execution order."""
    looked_at, is_showing = _mask(arrays, measured), _mask(arrays, showing)
    for number in first_diverging(arrays, looked_at, is_showing).tolist():
        later = int(is_showing[descendants(arrays, [number])].sum())
        has_measured = bool(len(nearest_measured_ancestors(arrays, number, looked_at)))
        yield FirstOp(arrays.ids[number], later, has_measured)


def _mask(arrays: GraphArrays, ops: Iterable[str]) -> Bool:
    mask = np.zeros(len(arrays.ids), np.bool_)
    mask[[arrays.number[op] for op in ops]] = True
    return mask


def finding(
    label: str,
    sentence: str,
    where: tuple[str, TensorIO, int],
    confidence: float,
    evidence: Mapping[str, EvidenceValue],
) -> Finding:
    """A finding of these checks about a tensor: *where* is its op, side of it and port."""
    return Finding(FindingKind.CONSISTENCY, label, sentence, *where, confidence, evidence)
