"""The values both sides were fed: where these differ, no op is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from divergraph.rootcause import calibration
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.values import is_numeric, relative
from divergraph.values.run_values import RunValues
from graphstore.model import Comparison, InputMismatch, TensorRef


def entry_error(values: RunValues, name: str) -> float | None:
    """The relative error of the graph input *name*; None unless both sides dumped it."""
    device, golden = values.device_input(name), values.golden_input(name)
    if device is None or golden is None or not (is_numeric(device) and is_numeric(golden)):
        return None
    return relative(device, golden)


def entry_mismatches(
    golden: OpGraph,
    values: RunValues,
    compared: Mapping[TensorRef, Comparison],
    unit: float,
) -> Iterator[InputMismatch]:
    """The inputs of the model whose relative error is more than rounding to a type explains.

    *unit* is the type's unit roundoff, such as 2**-11 for float16.
    """
    floor = calibration.SUSPECT * unit  # the same number of roundings that makes an op suspect
    for tensor in golden.graph.inputs:
        error = entry_error(values, tensor.name)
        if error is not None and error > floor:
            yield InputMismatch("", tensor.name, error, floor)
    for ref, item in compared.items():
        original = item.golden
        if original is None or original.op not in golden.ops or item.metrics is None:
            continue
        error = item.metrics.relative_euclidean_distance
        if golden.is_source(original.op) and error > floor:
            yield InputMismatch(ref.op, str(original), error, floor)
