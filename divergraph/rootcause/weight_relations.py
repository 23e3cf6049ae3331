"""How a weight that differs follows from golden's, where both sides dumped its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.graphs.pairing import Pair
from divergraph.rootcause.input_relations.known import relation
from divergraph.rootcause.values import is_numeric
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import WEIGHT
from divergraph.values.pairs import read_pair
from divergraph.values.unread import Unread
from graphstore.contract import RunData
from graphstore.model import Finding, TensorIO

_ROUNDED = 2.0**-7
"""What a relation may leave: two roundings to bfloat16, as of a golden weight and its multiple."""


def with_weights_related(data: RunData, pairs: Sequence[Pair]) -> RunData:
    """*data*, a compared recorded run, in whose causes a weight that differs is said to be
    golden's transposed, scaled, or that of another module, wherever it is; *pairs* have the
    values."""
    found = [each for each in data.findings if each.label == WEIGHT]
    if not found:
        return data
    calls = CallPairs(data.device, data.golden, data.links, data.comparisons)
    related = {
        finding.op: sentence
        for finding in found
        if (sentence := _related(finding, calls, pairs)) is not None
    }
    return replace(
        data,
        findings=tuple(
            replace(each, sentence=related[each.op])
            if each.label == WEIGHT and each.op in related
            else each
            for each in data.findings
        ),
        origins=tuple(
            replace(each, cause=related[each.op]) if each.op in related else each
            for each in data.origins
        ),
    )


def _related(finding: Finding, calls: CallPairs, pairs: Sequence[Pair]) -> str | None:
    """The sentence of the weight that a *finding* is about; None where its values tell nothing."""
    weights = _weights(calls, pairs)
    read = {calls.input_name(item) for item in calls.inputs.get(finding.op, ())}
    named = {name.partition(".parameters.")[2]: name for name in read & weights.keys()}
    # The finding names the weight by its last part: "its weight differs from golden's (...)".
    own = named.get(finding.sentence.removeprefix("its ").partition(" differs")[0])
    values = None if own is None else _values(weights[own])
    if own is None or values is None:
        return None
    device, golden = values
    start = finding.sentence.partition(" (")[0]
    for name, pair in weights.items():
        other = None if name == own or _shape(pair) != golden.shape else _values(pair)
        if other is not None and _is_same(device, other[1]):
            return f"{start}: it is that of {name.replace('.parameters.', ', ')}"
    words = _zeros(golden, device) or relation(golden, device, _ROUNDED)
    # How alike two inputs are says nothing more of weights, which nobody prepares.
    return f"{finding.sentence}: golden's {words}" if words and "(corr" not in words else None


def _weights(calls: CallPairs, pairs: Sequence[Pair]) -> Mapping[str, Pair]:
    """The pairs of parameters by their names, of the first call that reads each."""
    found: dict[str, Pair] = {}
    for pair in pairs:
        if pair.io is not TensorIO.INPUT or pair.port >= len(pair.op.inputs):
            continue
        ref = pair.op.inputs[pair.port]
        if ref is not None and ref.tensor in calls.weights:
            found.setdefault(ref.tensor, pair)
    return found


def _shape(pair: Pair) -> tuple[int, ...] | None:
    return pair.tensors.golden.shape


def _values(pair: Pair) -> tuple[Array, Array] | None:
    found = read_pair(pair.tensors)
    if isinstance(found, Unread) or not (is_numeric(found.device) and is_numeric(found.golden)):
        return None
    return found.device.astype(np.float64), found.golden.astype(np.float64)


def _is_same(device: Array, golden: Array) -> bool:
    size = float(np.linalg.norm(golden))
    return size > 0.0 and float(np.linalg.norm(device - golden)) <= _ROUNDED * size


def _zeros(golden: Array, device: Array) -> str:
    """``with zeros in index 3 of axis 0``, where only slices of zeros differ; else empty."""
    return next(_zero_slices(golden, device), "")


def _zero_slices(golden: Array, device: Array) -> Iterator[str]:
    for axis in range(golden.ndim):
        others = tuple(at for at in range(golden.ndim) if at != axis)
        is_zero = ~device.any(axis=others) & golden.any(axis=others)
        if not is_zero.any() or is_zero.all():
            continue
        rest = np.compress(~is_zero, device, axis), np.compress(~is_zero, golden, axis)
        if _is_same(*rest):
            places = ", ".join(map(str, np.flatnonzero(is_zero)[:4]))
            more = ", ..." if np.count_nonzero(is_zero) > 4 else ""
            yield f"with zeros at {places}{more} of axis {axis}"
