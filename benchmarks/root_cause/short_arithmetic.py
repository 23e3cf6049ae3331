"""Devices that add up, or compute functions, in the 16 bits they hold their values in.

Written in NumPy and ml_dtypes, not taken from the product: products add one term or a chunk of
terms after another to a sum in 16 bits; functions are read from tables, are polynomials, or go
through formulas whose every step is rounded. The yardstick (``truth/``) runs these as a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from generated import Made, Sheet, heads_of, linear
from narrow_formats import FORMATS, Rounded, as_it_is
from op_runner import Array, OpRunner

Function = Callable[[Array], Array]
_PRODUCTS = ("MatMul", "Gemm")


def in_type(kind: type) -> Rounded:
    """Rounds to *kind*, in float32."""
    return lambda value: np.asarray(value, np.float32).astype(kind).astype(np.float32)


BF16, FP16 = in_type(ml_dtypes.bfloat16), in_type(np.float16)


def summed(first: Array, second: Array, rounded: Rounded, chunk: int, lanes: int = 1) -> Array:
    """[..., m, k] times [..., k, n] with sums of *chunk* products added, in float32 first, to
    *lanes* sums that are *rounded* after each addition, and to one another at the end."""
    terms, step = first.shape[-1], chunk * lanes
    batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    sums = np.zeros((lanes, *batch, first.shape[-2], second.shape[-1]), np.float32)
    for start in range(0, terms, step):
        for lane in range(lanes):
            part = slice(start + lane * chunk, min(start + (lane + 1) * chunk, terms))
            sums[lane] = rounded(sums[lane] + first[..., part] @ second[..., part, :])
    total = sums[0]
    for each in sums[1:]:
        total = rounded(total + each)
    return np.asarray(total)


def added(value: Array, rounded: Rounded) -> Array:
    """The sum along the last axis, one number after another."""
    total = np.zeros(value.shape[:-1], np.float32)
    for each in np.moveaxis(value, -1, 0):
        total = rounded(total + each)
    return total[..., None]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _erf(x: Array) -> Array:
    """Abramowitz and Stegun, 7.1.26: off by up to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    return np.asarray(np.sign(x) * (1 - np.polyval([*terms, 0], t) * np.exp(-x * x)))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / np.sqrt(2))))


EXACT: Mapping[str, tuple[Function, float]] = {
    "Gelu": (_gelu, 6.0),
    "Silu": (lambda x: x * _sigmoid(x), 8.0),
    "Sigmoid": (_sigmoid, 8.0),
    "Tanh": (np.tanh, 4.0),
    "Exp": (np.exp, 8.0),
}
"""Functions, and the size of numbers up to which tables and polynomials have them."""


def table(entries: int, rounded: Rounded) -> Callable[[str], Function]:
    """Functions from tables of *entries*, straight between two of them; beyond the table, ends."""

    def of(name: str) -> Function:
        exact, reach = EXACT[name]
        places = np.linspace(-reach, 0.0 if name == "Exp" else reach, entries)
        heights = rounded(exact(places))

        def looked_up(x: Array) -> Array:
            found = np.interp(x, places, heights)
            if name in ("Gelu", "Silu"):
                found = np.where(x > reach, x, np.where(x < -reach, 0.0, found))
            return rounded(found)

        return looked_up

    return of


def polynomial(degree: int, pieces: int, rounded: Rounded) -> Callable[[str], Function]:
    """Functions by a polynomial on each of *pieces*, evaluated in 16 bits step by step."""

    def of(name: str) -> Function:
        exact, reach = EXACT[name]
        ends = np.linspace(-reach, 0.0 if name == "Exp" else reach, pieces + 1)
        half = (ends[1] - ends[0]) / 2
        grid = np.cos(np.pi * (np.arange(24) + 0.5) / 24)
        fits = rounded(
            np.array([np.polyfit(grid, exact(e + half * (1 + grid)), degree) for e in ends[:-1]])
        )

        def computed(x: Array) -> Array:
            inside = np.clip(x, ends[0], ends[-1])
            piece = np.clip(((inside - ends[0]) // (2 * half)).astype(int), 0, pieces - 1)
            t = rounded((inside - ends[piece]) / half - 1)
            total = fits[piece, 0]
            for place in range(1, degree + 1):
                total = rounded(rounded(total * t) + fits[piece, place])
            if name in ("Gelu", "Silu"):
                total = np.where(x > reach, x, np.where(x < -reach, 0.0, total))
            return np.asarray(total, np.float32)

        return computed

    return of


def steps(rounded: Rounded) -> Callable[[str], Function]:
    """Functions by their formulas, each step rounded."""
    r = rounded

    def sigmoid(x: Array) -> Array:
        return r(1 / r(1 + r(np.exp(-x))))

    known: Mapping[str, Function] = {
        "Gelu": lambda x: r(r(0.5 * x) * r(1 + r(_erf(r(x / np.sqrt(2)))))),
        "Silu": lambda x: r(x * sigmoid(x)),
        "Sigmoid": sigmoid,
        "Tanh": lambda x: r(r(2 * sigmoid(r(2 * x))) - 1),
        "Exp": lambda x: r(np.exp2(r(x * np.log2(np.e)))),
    }
    return known.__getitem__


@dataclass(frozen=True)
class Short:
    """A device: values *held* in 16 bits; sums in chunks (0: in float32), in lanes; functions;
    formats of both factors where one is a weight."""

    held: Rounded
    chunk: int = 0
    lanes: int = 1
    functions: Callable[[str], Function] | None = None
    operands: str = "bf16"
    sums: Rounded | None = None
    """What sums are rounded to, if not as values are."""
    all_sums: bool = False
    """Those of Softmax and normalisations, too."""


SHORT: Mapping[str, Short] = {
    "fp16-sums": Short(FP16, chunk=1),
    "fp16-sums-16": Short(FP16, chunk=16),
    "bf16-sums": Short(BF16, chunk=1),
    "bf16-sums-32": Short(BF16, chunk=32),
    "bf16-fp16-sums-8": Short(BF16, chunk=8, sums=FP16),
    "fp16-all-sums-4": Short(FP16, chunk=4, all_sums=True),
    "bf16-all-sums-16": Short(BF16, chunk=16, all_sums=True),
    "fp16-table": Short(FP16, functions=table(512, FP16)),
    "bf16-table": Short(BF16, functions=table(256, BF16)),
    "fp16-polynomial": Short(FP16, functions=polynomial(3, 16, FP16)),
    "bf16-polynomial": Short(BF16, functions=polynomial(3, 16, BF16)),
    "fp16-steps": Short(FP16, functions=steps(FP16)),
    "bf16-steps": Short(BF16, functions=steps(BF16)),
    "bf16-e4m3-sums-32": Short(BF16, chunk=32, operands="e4m3-row", sums=FP16),
    "bf16-int4-sums-16-table": Short(
        BF16, chunk=16, operands="int4-32", functions=table(256, BF16)
    ),
    # Not looked at before the rest was done:
    "fp16-sums-lanes": Short(FP16, chunk=1, lanes=8),
    "fp16-sums-64": Short(FP16, chunk=64),
    "bf16-sums-2": Short(BF16, chunk=2),
    "fp32-fp16-sums-16": Short(as_it_is, chunk=16, sums=FP16),
    "bf16-coarse-table": Short(BF16, functions=table(96, BF16)),
    "fp16-all": Short(FP16, chunk=8, functions=polynomial(4, 12, FP16), all_sums=True),
}


class ShortRunner(OpRunner):
    """Runs what *device* computes in its own way; all else as ONNX Runtime does."""

    device: Short = Short(as_it_is)
    _functions: dict[str, Function]

    def _outputs(self, number: int, values: Mapping[str, Array]) -> dict[str, Array]:
        node, device = self.nodes[number], self.device
        sums = device.sums or device.held
        given = [values[name] for name in node.input if name]
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        made: Array | None = None
        if node.op_type in _PRODUCTS and given[0].dtype == np.float32:
            made = self._product(node, given, attributes, sums)
        elif node.op_type == "Softmax" and (device.all_sums or device.functions):
            x = np.moveaxis(given[0], attributes.get("axis", -1), -1)
            moved = device.held(x - x.max(-1, keepdims=True))
            function = device.functions("Exp") if device.functions else np.exp
            powers = device.held(function(moved))
            total = added(powers, sums) if device.all_sums else powers.sum(-1, keepdims=True)
            made = np.moveaxis(powers / total, -1, attributes.get("axis", -1))
        elif node.op_type == "LayerNormalization" and device.all_sums:
            size = given[0].shape[-1]
            moved = device.held(given[0] - added(given[0], sums) / np.float32(size))
            spread = added(device.held(moved**2), sums) / np.float32(size)
            scaled = device.held(moved * device.held(1 / np.sqrt(spread + np.float32(1e-5))))
            made = scaled * given[1] + given[2]
        elif node.op_type in EXACT and device.functions:
            made = device.functions(node.op_type)(given[0])
        if made is None:
            return super()._outputs(number, values)
        return self._after(node, {node.output[0]: np.asarray(made, np.float32)})

    def _product(
        self, node: onnx.NodeProto, given: list[Array], attributes: Mapping[str, object], r: Rounded
    ) -> Array | None:
        device, weight = self.device, node.input[1] in self.constants
        if not device.chunk and device.operands == "bf16":
            return None
        first, second = given[:2]
        if attributes.get("transA"):
            first = first.T
        if attributes.get("transB"):
            second = second.T
        plain = [n for n, each in enumerate(self.nodes) if each.op_type in _PRODUCTS][-1]
        if weight and second.ndim == 2:
            shape = (*first.shape[:-1], second.shape[1])
            first = first.reshape(-1, first.shape[-1])
            if node is not self.nodes[plain]:
                activation, held = FORMATS[device.operands]
                first, second = activation(first), held(np.ascontiguousarray(second.T)).T
            made = (
                summed(first, second, r, device.chunk, device.lanes)
                if device.chunk
                else first @ second
            ).reshape(shape)
        else:
            made = summed(first, second, r, device.chunk, device.lanes) if device.chunk else None
        if made is None:
            return None
        return made + given[2] if len(given) > 2 else made


def runner(model: Path, name: str) -> ShortRunner:
    """The device *name* of :data:`SHORT`."""
    device = SHORT[name]

    def after(_node: onnx.NodeProto, _name: str, value: Array) -> Array:
        return device.held(value) if value.dtype == np.float32 else value

    found = ShortRunner(onnx.load_model(str(model)), after)
    found.device = device
    for each, value in found.constants.items():
        if value.dtype == np.float32:
            found.constants[each] = device.held(value)
    return found


@dataclass
class _Blocks:
    """Layers of *functions* between products of *wide* terms."""

    functions: tuple[str, ...]
    wide: tuple[int, ...]
    size: int = 64
    words: int = 24
    opset: int = field(default=20, init=False)

    def __call__(self, seed: int) -> Made:
        sheet = Sheet(np.random.default_rng(seed))
        size, x, heads = self.size, "x", 4
        for function, wide in zip(self.functions, self.wide, strict=True):
            y = sheet("LayerNormalization", x, sheet.vector(size, 1.0), sheet.vector(size))
            q, k, v = (heads_of(sheet, linear(sheet, y, size, size), heads, size) for _ in "qkv")
            score = sheet("MatMul", q, sheet("Transpose", k, perm=[0, 1, 3, 2]))
            score = sheet("Div", score, sheet.constant(np.sqrt(size / heads)))
            seen = sheet("MatMul", sheet("Softmax", score, axis=-1), v)
            seen = sheet("Transpose", seen, perm=[0, 2, 1, 3])
            seen = sheet("Reshape", seen, sheet.integers(0, 0, size))
            x = sheet("Add", x, linear(sheet, seen, size, size))
            y = sheet("LayerNormalization", x, sheet.vector(size, 1.0), sheet.vector(size))
            y = linear(sheet, y, size, wide)
            gated = function == "Silu"
            y = sheet("Mul", y, sheet("Sigmoid", y)) if gated else sheet(function, y)
            x = sheet("Add", x, linear(sheet, y, wide, size))
        x = sheet("Gemm", sheet("Flatten", x, axis=2), sheet.weight(size, 20), sheet.vector(20))
        values = {"x": sheet.rng.normal(0, 1, (1, self.words, size)).astype(np.float32)}
        model, feeds = sheet.model(values, [x])
        model.opset_import[0].version, model.ir_version = self.opset, 9
        return model, feeds


SHORT_MODELS: Mapping[str, Callable[[int], Made]] = {
    "gelus": _Blocks(("Gelu",) * 4, (256, 512, 2048, 1024)),
    "gates": _Blocks(("Silu", "Tanh", "Silu", "Sigmoid"), (2048, 256, 8192, 512)),
}
"""Makers of models whose sums are long: 64 to 8192 terms."""
