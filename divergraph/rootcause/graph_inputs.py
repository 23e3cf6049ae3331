"""The values both sides were fed: where these differ, no op is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.rootcause.input_relations.known import relation
from divergraph.rootcause.input_relations.numbers import in_steps
from divergraph.rootcause.values import is_numeric, relative
from divergraph.values.run_values import RunValues
from graphstore.model import Comparison, InputMismatch, TensorRef

_EXACT = "biu"


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
    *,
    quantised: bool = False,
) -> Iterator[InputMismatch]:
    """The inputs of the model whose values differ by more than rounding to a type explains, each
    with how the device's follow from golden's.

    *unit* is the type's unit roundoff, such as 2**-11 for float16. A *quantised* device may have
    its inputs in steps of its own.
    """
    floor = calibration.SUSPECT * unit  # the same number of roundings that makes an op suspect
    for op, name, device, golden_value in _entries(golden, values, compared):
        if not (is_numeric(device) and is_numeric(golden_value)) or (
            quantised and in_steps(device, golden_value)
        ):
            continue
        if inputs_differ(device, golden_value, floor):
            error = relative(device, golden_value)
            yield InputMismatch(op, name, error, floor, relation(golden_value, device, floor))


def _entries(
    golden: OpGraph, values: RunValues, compared: Mapping[TensorRef, Comparison]
) -> Iterator[tuple[str, str, Array, Array]]:
    """The inputs of the model that both sides dumped: the device op that brings one in, if there is
    one, its golden name, and both values."""
    for tensor in golden.graph.inputs:
        device, golden_value = values.device_input(tensor.name), values.golden_input(tensor.name)
        if device is not None and golden_value is not None:
            yield "", tensor.name, device, golden_value
    for ref, item in compared.items():
        original = item.golden
        if original is None or original.op not in golden.ops or not golden.is_source(original.op):
            continue
        device, golden_value = values.device(ref), values.golden(original)
        if device is not None and golden_value is not None:
            yield ref.op, str(original), device, golden_value


def inputs_differ(device: Array, golden: Array, floor: float) -> bool:
    """Whether two inputs differ by more than a conversion of their type explains: integers at all,
    floats by more than *floor*, in their norm or in one element beside the usual ones, unless they
    were only rounded to 16 bits."""
    if device.dtype.kind in _EXACT and golden.dtype.kind in _EXACT:
        return not np.array_equal(device.reshape(-1), golden.reshape(-1))
    if relative(device, golden) > floor:
        return not _is_rounded(device, golden)
    with np.errstate(invalid="ignore", over="ignore"):
        there = golden.reshape(-1).astype(np.float64)
        differences = np.abs(device.reshape(-1) - there)
        usual = float(np.sqrt(np.mean(np.square(there[np.isfinite(there)])))) if there.size else 0.0
        # A norm does not see one pixel of a million.
        return bool((differences > floor * np.maximum(np.abs(there), usual)).any())


def _is_rounded(device: Array, golden: Array) -> bool:
    """Whether the device has golden's floats rounded to 16 bits, however finely it computes."""
    if device.dtype.kind != "f" or golden.dtype.kind != "f":
        return False
    there = golden.reshape(device.shape)
    kinds = (FP16.rounded(there), BF16.rounded(there))
    return any(np.array_equal(kind, device, equal_nan=True) for kind in kinds)
