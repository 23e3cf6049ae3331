"""Calls convicted by the statistics of what they read and made alone."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divergraph.metrics.statistics import statistics_of
from divergraph.thresholds.recorded.call_laws import summary_of
from divergraph.thresholds.recorded.laws_of_layers import broken_law
from divergraph.thresholds.recorded.statistics_only import keeps_places
from graphstore.model import DType, DumpFormat, DumpTensorRef, Op, Tensor, TensorIO
from importers.msprobe.graph import ARGUMENTS

DRAW = np.random.default_rng(4)
VALUE, OTHER = DRAW.normal(size=(4, 6, 8)), DRAW.normal(1.0, 2.0, size=(6, 8))
ROW, ONES = DRAW.uniform(0.8, 1.1, size=8), np.ones(8)


def dumped(values, io, port):
    return DumpTensorRef(
        Path("dump.json"), DumpFormat.STATISTICS, "call", io, port, DType.BFLOAT16,
        tuple(values.shape), statistics=statistics_of(values),
    )  # fmt: skip


def verdict(kind, reads, makes, **arguments):
    """Which law a call breaks that reads and makes these arrays."""
    attrs = {f"input.{name.removeprefix('at')}": value for name, value in arguments.items()}
    op = Op(
        "call", "call", kind, outputs=tuple(Tensor(f"out{at}") for at in range(len(makes))),
        attrs={"direction": "forward", ARGUMENTS: tuple(reads), **attrs},
    )  # fmt: skip
    sides = (TensorIO.INPUT, list(reads.values())), (TensorIO.OUTPUT, makes)
    tensors = {
        ("call", io, port): dumped(np.asarray(values), io, port)
        for io, side in sides
        for port, values in enumerate(side)
    }
    return broken_law(op, tensors)


def softmax(values):
    shares = np.exp(values - values.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def normed(values, weight=1.0):
    spread = values.std(-1, keepdims=True)
    return (values - values.mean(-1, keepdims=True)) / spread * weight


CALLS = {
    "relu": ("relu", {"0": VALUE}, np.maximum(VALUE, 0), {}),
    "gelu": (
        "gelu",
        {"0": VALUE},
        VALUE * (1 + np.vectorize(math.erf)(VALUE / math.sqrt(2))) / 2,
        {},
    ),
    "exp": ("exp_", {"0": VALUE}, np.exp(VALUE), {}),
    "softmax": ("softmax", {"0": VALUE}, softmax(VALUE), {"dim": -1}),
    "sum of two": ("__iadd__", {"0": VALUE, "1": OTHER}, VALUE + OTHER, {}),
    "scaled sum": ("add", {"0": VALUE, "1": OTHER}, VALUE + 3.0 * OTHER, {"alpha": 3.0}),
    "difference": ("rsub", {"0": VALUE}, 2.0 - VALUE, {"at1": 2.0}),
    "product": ("mul", {"0": VALUE}, VALUE * 0.3, {"at1": 0.3}),
    "mean": ("mean", {"0": OTHER}, OTHER.mean(-1), {"dim": -1}),
    "sum": ("sum", {"0": OTHER}, OTHER.sum(-1), {"dim": -1}),
    "lerp": ("lerp_", {"0": VALUE, "1": OTHER}, VALUE * 0.9 + OTHER * 0.1, {"at2": 0.1}),
    "layer norm": ("layer_norm", {"0": VALUE, "2": ROW}, normed(VALUE, ROW), {}),
    "cat": ("cat", {"0.0": VALUE, "0.1": OTHER[None]}, np.concatenate([VALUE, OTHER[None]]), {}),
    "transpose": ("transpose", {"0": VALUE}, VALUE.transpose(0, 2, 1), {}),
    "clamp": ("clamp", {"0": VALUE}, VALUE.clip(-1, 1.5), {"min": -1.0, "max": 1.5}),
}
SPOILT = {
    "relu": np.negative, "gelu": lambda made: 1.25 * made, "exp": lambda made: made * 0.9,
    "softmax": lambda made: made * 1.25, "sum of two": lambda made: made - OTHER,
    "scaled sum": lambda made: made - 2.0 * OTHER, "difference": np.negative,
    "product": lambda made: made * 2, "mean": lambda made: made * 8, "sum": lambda made: made / 8,
    "lerp": lambda made: VALUE * 0.1 + OTHER * 0.9, "layer norm": lambda made: made * 1.5,
    "cat": lambda made: np.where(np.arange(5)[:, None, None] == 4, 0, made),
    "transpose": lambda made: made + 0.2, "clamp": lambda made: made * 2,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_right_call_keeps_its_law_and_a_wrong_one_breaks_it(name):
    kind, reads, made, arguments = CALLS[name]
    assert verdict(kind, reads, [made], **arguments) == ""
    assert "of its output is" in verdict(kind, reads, [SPOILT[name](made)], **arguments)


def test_the_parts_of_a_tensor_have_its_statistics_together():
    parts = np.split(VALUE, 2, axis=-1)
    assert verdict("chunk", {"0": VALUE}, parts) == ""
    assert "mean" in verdict("chunk", {"0": VALUE}, [parts[0], parts[0]])


def test_what_is_not_finite_or_lacks_an_argument_cannot_be_told():
    assert verdict("exp", {"0": np.full((2, 2), np.nan)}, [np.ones((2, 2))]) == ""
    assert verdict("lerp", {"0": VALUE, "1": OTHER}, [VALUE]) == ""
    assert verdict("nobody_knows_it", {"0": VALUE}, [VALUE]) == ""


def test_values_in_another_order_are_told_from_a_channel_that_is_wrong():
    weight = DRAW.normal(size=(8, 8))
    right, moved = VALUE @ weight, VALUE[:, ::-1, ::-1] @ weight
    scaled = right * np.where(np.arange(8) == 1, 1.15, 1.0)

    def both(made):
        sides = [summary_of(dumped(each, TensorIO.OUTPUT, 0)) for each in (made, right)]
        return [tuple(sides)]

    assert keeps_places(both(scaled))
    assert keeps_places(both(right * 1.25))
    assert keeps_places(both(-right))
    assert not keeps_places(both(moved))


def test_a_law_reads_statistics_and_leaves_values_to_be_run_again():
    op = Op("call", "call", "relu", outputs=(Tensor("out"),),
            attrs={"direction": "forward", ARGUMENTS: ("0",)})  # fmt: skip
    ref = replace(dumped(VALUE, TensorIO.INPUT, 0), format=DumpFormat.NPY)
    assert broken_law(op, {("call", TensorIO.INPUT, 0): ref}) == ""
