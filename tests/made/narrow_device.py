"""A network in bfloat16 whose linear layers a device reads in fewer bits, computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
from dumped_sides import compared, run_all, written
from onnx import helper

from graphstore.contract import RunData

Array = np.ndarray
Rounded = Callable[[Array], Array]
"""Rows along the sum (the last axis) as the multiplier reads them."""
WIDE, TOKENS, LAYERS = 96, 48, 6


def bf16(value: Array) -> Array:
    """*value* rounded to bfloat16, in float32."""
    return value.astype(ml_dtypes.bfloat16).astype(np.float32)


def as_it_is(rows: Array) -> Array:
    """Nothing is rounded."""
    return rows


def e4m3_by_row(rows: Array) -> Array:
    """One scale for each row."""
    scale = np.abs(rows).max(1, keepdims=True) / np.float32(448)
    return (rows / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale


def lower_e2m1(value: Array) -> Array:
    """The nearest number of e2m1, of two the smaller: what a search of them finds first."""
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    places = np.searchsorted((numbers[1:] + numbers[:-1]) / 2, np.abs(value), side="left")
    return np.copysign(numbers[places], value)


def blocks(size: int, nearest: Rounded, largest: float) -> Rounded:
    """Blocks of *size* along the sum with a power of two each, so that none saturates."""

    def rounded(rows: Array) -> Array:
        cut = rows.reshape(len(rows), -1, size)
        most = np.maximum(np.abs(cut).max(2, keepdims=True), 1e-30)
        scale = (2.0 ** np.ceil(np.log2(most / largest))).astype(np.float32)
        return (nearest(cut / scale) * scale).reshape(rows.shape)

    return rounded


def int4_groups(rows: Array) -> Array:
    """Groups of 32 weights from 0 or the least to the largest, given back as bfloat16."""
    cut = rows.reshape(len(rows), -1, 32)
    low, high = np.minimum(cut.min(2, keepdims=True), 0), np.maximum(cut.max(2, keepdims=True), 0)
    scale = (high - low) / np.float32(15)
    zero = np.round(-low / scale)
    steps = np.clip(np.round(cut / scale) + zero, 0, 15)
    return bf16(((steps - zero) * scale).reshape(rows.shape))


def summed(chunk: int) -> Callable[[Array, Array], Array]:
    """Products whose sums are rounded to bfloat16 after each *chunk* of terms."""

    def product(first: Array, second: Array) -> Array:
        total = np.zeros((len(first), second.shape[1]), np.float32)
        for start in range(0, len(second), chunk):
            part = slice(start, start + chunk)
            total = bf16(total + first[:, part] @ second[part])
        return total

    return product


class NarrowDevice:
    """Layers of a product, a bias and a Tanh, with a head behind them. *merged*: product and bias
    of the first layer are one op, of which the device holds the product before it adds the bias."""

    def __init__(self, folder: Path, wide: int = WIDE, *, merged: bool = False) -> None:
        draw = np.random.default_rng(3)
        node = helper.make_node
        self.weights, self.nodes, last = {}, [], "x"
        for k in range(LAYERS):
            scales = draw.uniform(0.3, 3, (wide, 1)) / np.sqrt(wide)
            weight = draw.standard_normal((wide, wide)) * scales
            self.weights[f"w{k}"] = weight.astype(np.float32)
            self.weights[f"b{k}"] = draw.standard_normal(wide).astype(np.float32) / 5
            self.nodes += (
                [node("Gemm", [last, f"w{k}", f"b{k}"], [f"a{k}"])]
                if merged and k == 0
                else [
                    node("MatMul", [last, f"w{k}"], [f"m{k}"]),
                    node("Add", [f"m{k}", f"b{k}"], [f"a{k}"]),
                ]
            )
            self.nodes.append(node("Tanh", [f"a{k}"], [f"t{k}"]))
            last = f"t{k}"
        self.weights["w"] = draw.standard_normal((wide, 40)).astype(np.float32)
        self.nodes.append(node("MatMul", [last, "w"], ["head"]))
        self.feeds = {"x": bf16(draw.standard_normal((TOKENS, wide)).astype(np.float32))}
        self.model = written(folder / "net.onnx", self.nodes, self.feeds, self.weights, ["head"])

    def values(
        self,
        activation: Rounded,
        weight: Rounded,
        *,
        plain: Collection[str] = ("head",),
        held: Rounded = bf16,
        product: Callable[[Array, Array], Array] = np.matmul,
        faults: Mapping[str, Rounded] | None = None,
    ) -> dict[str, Array]:
        """What the device dumps: products but the *plain* ones read their factors rounded, all
        values are *held* in a type, terms are added up as by *product*, and *faults* change outputs
        by name."""
        known = {**self.feeds, **{name: held(value) for name, value in self.weights.items()}}
        for each in self.nodes:
            first, *more = (known[name] for name in each.input)
            (name,) = each.output
            if each.op_type == "Tanh":
                made = np.tanh(first)
            elif each.op_type == "Add":
                made = first + more[0]
            elif name in plain:
                made = first @ more[0]
            else:
                made = product(activation(first), weight(more[0].T).T)
                made = held(made) + more[1] if each.op_type == "Gemm" else made
            known[name] = held(made)
            if faults and name in faults:
                known[name] = held(faults[name](known[name]))
        return {name: known[name] for each in self.nodes for name in each.output} | self.feeds

    def compared(self, values: Mapping[str, Array]) -> RunData:
        """The device's *values* against golden's."""
        return compared(self.model, run_all(self.model, self.feeds), dict(values))
