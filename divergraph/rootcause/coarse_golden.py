"""A golden side that is coarser than the device: what differs is then golden's own rounding.

Of 16 bits the rounding is known, so the device is judged with golden's floors and the verdict
holds. Integers of 8 bits lose more than any floor of the device explains: an op held against a
golden op that quantises cannot be accused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from divergraph.execute.contract import OptionFactory
from divergraph.execute.installed import factory_for
from divergraph.graphs.pairing import Pair
from divergraph.jobs.progress import Progress
from divergraph.rootcause.devices.precision import Precision, precision_of
from divergraph.rootcause.devices.quantisers import DEQUANTISING, computes_in_integers, quantises
from divergraph.rootcause.options import MethodChoice, RootCauseOptions
from divergraph.rootcause.run import with_root_cause
from divergraph.rootcause.run_inputs import RunSources
from divergraph.thresholds.doubts import not_accused, undecided, with_doubt
from divergraph.values.one_tensor import read_stored
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DType,
    DumpTensorRef,
    ErrorSplit,
    ModelGraph,
    Op,
    TensorIO,
    TensorRef,
    Verdict,
)

_LOOKED_AT, _FEWEST = 40, 3
"""Pairs of tensors whose values are looked at, and that must tell the precision of both sides."""
_NEARLY_ALL, _FAR = 0.95, 100.0
"""Share of the tensors in which the device does what golden does, and floors golden is off by."""
_EIGHT_BITS = frozenset({DType.INT8, DType.UINT8, DType.QINT8, DType.QUINT8})
_PRODUCTS = ("Conv", "MatMul", "Gemm", "LSTM", "GRU")
_CONSTANT = ("Constant", "Const")


def with_fair_root_cause(
    data: RunData,
    sources: RunSources,
    choice: MethodChoice,
    options: RootCauseOptions,
    progress: Progress,
) -> RunData:
    """As :func:`with_root_cause`, but no op is accused of golden's own rounding.

    Raises:
        ExecutionError: the golden model cannot be run, and *choice* asks for root causes.
    """
    sampled = _sampled(sources.pairs)
    device = Counter(own for own, _ in sampled).most_common(1)
    finer = device[0][0].name if device else "float"
    coarse = _coarser(sampled)
    if coarse is not None and options.precision is None:
        options = replace(options, precision=coarse)
        # A reference that rounds as golden does leaves nothing of its rounding in the noise floor.
        sources = replace(sources, golden_options=_unrounded(data.golden))
    before = data.run
    data = with_root_cause(data, sources, choice, options, progress)
    analysis = replace(data.run.analysis, observed=before.analysis.observed)
    data = with_doubt(
        replace(data, run=replace(data.run, analysis=analysis)), before.analysis.doubt
    )
    if before.verdict is Verdict.UNDECIDED:  # analysed again, of the same files
        data = undecided(data)
    if coarse is not None:
        data = with_doubt(data, _sentence(coarse.name, finer))
    if doubt := _golden_of_another(data):
        data = with_doubt(data, doubt)
        if any(item.over for item in data.comparisons):
            data = undecided(data)
    if _has_eight_bits(data.device):
        return data
    integers = _quantising(data.golden)
    freed = {op for op, group in _groups(data).items() if not integers.isdisjoint(group)}
    if freed or _is_quantised(data.golden, integers):
        data = with_doubt(data, _sentence("int8", finer))
    return not_accused(data, freed)


def _unrounded(graph: ModelGraph) -> Mapping[str, str] | None:
    """Options with which the executor of *graph* rounds nothing between ops; None if it has none
    such."""
    factory = factory_for(graph)
    options = factory.options if isinstance(factory, OptionFactory) else {}
    return {"precision": "float64"} if "precision" in options else None


def _sentence(golden: str, device: str) -> str:
    return (
        f"the golden side is coarser than the device ({golden} against {device}), so what differs "
        f"is golden's rounding: are the sides exchanged? Else take a golden model in {device}"
    )


class _Known(NamedTuple):
    """An error split of which every number is known; ``from_nothing``: no input has an error."""

    introduced: float
    propagated: float
    floor: float
    from_nothing: bool


def _known(split: ErrorSplit | None) -> _Known | None:
    if split is None or split.introduced is None or split.propagated is None or not split.floor:
        return None
    from_nothing = split.amplification in (None, math.inf)
    return _Known(split.introduced, split.propagated, split.floor, from_nothing)


class _EqualInputs:
    """Which golden ops are fed the same values on both sides, to the last bit."""

    def __init__(self, data: RunData) -> None:
        self._ops = data.golden.op_index()
        self._compared = {
            item.golden: item.metrics
            for item in data.comparisons
            if item.io is TensorIO.OUTPUT and item.golden is not None
        }

    def feed(self, item: Comparison) -> bool:
        """Whether all that feeds the ops behind *item* is a constant, an input or equal."""
        own = {item.golden.op} if item.golden is not None else set()
        inside = own.union(() if item.split is None else item.split.group) & self._ops.keys()
        fed = {tensor for op in inside for tensor in self._ops[op].takes if tensor.op not in inside}
        return bool(inside) and all(map(self._is_equal, fed))

    def _is_equal(self, tensor: TensorRef) -> bool:
        metrics = self._compared.get(tensor)
        if metrics is None:
            return not any(self._ops[tensor.op].inputs)
        return metrics.max_absolute_error == 0.0 and not metrics.different


def _golden_of_another(data: RunData) -> str:
    """What to say if golden's values are not what the golden model makes of its inputs, while the
    device's are: an error that no op introduces and no input brings is golden's own."""
    outputs = [
        item for item in data.comparisons if item.io is TensorIO.OUTPUT and not item.misshapen
    ]
    splits = [(item, split) for item in outputs if (split := _known(item.split)) is not None]
    exact = [(item, split) for item, split in splits if split.introduced <= split.floor]
    is_fed_otherwise = data.run.verdict is Verdict.INPUTS_DIFFER or data.run.analysis.mismatches
    if data.origins or is_fed_otherwise or len(exact) < _NEARLY_ALL * len(splits):
        return ""
    equal = _EqualInputs(data)
    from_nothing = (
        (item, split.propagated)
        for item, split in exact
        if split.from_nothing and split.propagated > _FAR * split.floor and equal.feed(item)
    )
    first, error = next(from_nothing, (None, 0.0))
    if first is None:
        return ""
    return (
        f"the device's values are what the golden model computes here and golden's are not (from "
        f"{first.golden} on, by {error:.2g}): are the dumps exchanged, or is golden of another run?"
    )


def _coarser(sampled: Sequence[tuple[Precision, Precision]]) -> Precision | None:
    """The precision of golden, if it is coarser than the device's in most of the pairs."""
    counts = Counter(golden for own, golden in sampled if golden.coarseness > own.coarseness)
    if counts.total() < max(_FEWEST, len(sampled) / 2 + 1):
        return None
    return counts.most_common(1)[0][0]


def _sampled(pairs: Sequence[Pair]) -> list[tuple[Precision, Precision]]:
    """The precision of device and golden, of pairs all over the run whose values tell it."""
    real = [pair for pair in pairs if pair.io is TensorIO.OUTPUT]
    sampled = []
    for pair in real[:: max(1, len(real) // _LOOKED_AT)]:
        precisions = [_precision(ref) for ref in (pair.device, pair.golden)]
        if precisions[0] is not None and precisions[1] is not None:
            sampled.append((precisions[0], precisions[1]))
    return sampled


def _precision(ref: DumpTensorRef) -> Precision | None:
    value = None if ref.statistics else read_stored(ref)
    return precision_of(value, ref.dtype) if isinstance(value, np.ndarray) else None


def _groups(data: RunData) -> dict[str, set[str]]:
    """By origin, the golden ops that it was held against."""
    groups = {origin.op: {ref.op for ref in origin.golden} for origin in data.origins}
    outputs = {origin.op: origin.output for origin in data.origins}
    for item in data.comparisons:
        if item.io is TensorIO.OUTPUT and item.port == outputs.get(item.op) and item.split:
            groups[item.op].update(item.split.group)
    return groups


def _quantising(graph: ModelGraph) -> frozenset[str]:
    """The ops of *graph* that quantise what is computed, or compute in integers.

    Weights do not count: what was quantised before the run is the same on any device.
    """
    ops = graph.op_index()
    inputs = {tensor.name for tensor in graph.inputs}
    return frozenset(
        op.id
        for op in graph.ops
        if computes_in_integers(op.type)
        or (op.type in DEQUANTISING and _is_computed(op, ops, inputs))
    )


def _is_computed(op: Op, ops: Mapping[str, Op], inputs: Collection[str]) -> bool:
    """Whether *op* dequantises something computed or fed, and no constant."""
    quantised = op.source()
    if quantised is None:
        return False
    inputs_of_op = ops[quantised.op].inputs[:1]
    if not inputs_of_op or inputs_of_op[0] is None:
        return False
    producer = inputs_of_op[0].producer
    return (
        inputs_of_op[0].tensor in inputs
        if producer is None
        else ops[producer.op].type not in _CONSTANT
    )


def _is_quantised(graph: ModelGraph, integers: Collection[str]) -> bool:
    """Whether most matrix ops of *graph* are computed of integers."""
    ops = graph.op_index()
    products = [op for op in graph.ops if op.type in _PRODUCTS]
    integer_ops = sum(any(product in ops[op].type for product in _PRODUCTS) for op in integers)
    fed = sum((source := op.source()) is not None and source.op in integers for op in products)
    return 2 * (integer_ops + fed) > integer_ops + len(products)


def _has_eight_bits(graph: ModelGraph) -> bool:
    return any(
        quantises(op.type)
        or "Quant" in op.type
        or not _EIGHT_BITS.isdisjoint(output.dtype for output in op.outputs)
        for op in graph.ops
    )
