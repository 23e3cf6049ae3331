"""Weights that a device holds in fewer bits than its graph says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_files import written_chain

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.dynamic_scales import DynamicScale, SharedBy
from divergraph.rootcause.devices.held_weights.weight_grids import (
    GRIDS,
    Lies,
    ScaleSharing,
    WeightGrid,
    half,
)
from graphstore.contract import RunData
from graphstore.model import Verdict

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(15)
LAYERS, CHANNELS = 5, 64
WEIGHTS = [
    (RNG.standard_normal((CHANNELS, CHANNELS)) / 8 + 0.01).astype(np.float32) for _ in range(LAYERS)
]
X = RNG.standard_normal((24, CHANNELS)).astype(np.float32)
CHANNEL = WeightGrid(8, ScaleSharing.CHANNEL, Lies.FROM_LEAST)
ROWS = DynamicScale(SharedBy.PATCH, symmetric=True)
Held = Callable[[Array], Array]


def on_grid(grid: WeightGrid) -> Held:
    return grid.quantiser((-1, -2))


def compared(
    folder: Path,
    held: Held,
    *,
    wrong: int | None = None,
    met: Held = lambda x: x,
    exact: int = -1,
    weights: Sequence[Array] = WEIGHTS,
    x: Array = X,
) -> RunData:
    """A device whose products hold their *weights* so, but for the product *exact*; in that with
    number *wrong* one weight is off by a fifth of the largest."""
    path = written_chain(folder / "model.onnx", ("MatMul", "Tanh"), "product", x, weights)
    np.save(folder / "x0.npy", x)
    for side in ("golden", "device"):
        capture(CaptureRequest(path, folder / side, {"x0": folder / "x0.npy"}))
    dumps = {each.name.partition(".")[0]: each for each in (folder / "device").glob("*.npy")}
    for n, weight in enumerate(weights):
        w = weight if n == exact else held(weight)
        if n == wrong:
            w = w.copy()
            w[7, 11] += 0.2 * np.abs(w).max()
        made = (x if n == exact else met(x)) @ w
        np.save(dumps[f"product{n}"], made)
        x = np.tanh(made)
        np.save(dumps[f"tanh{n}"], x)
    return compare(CompareRequest(path, folder / "golden", path, folder / "device"))


WAYS: dict[str, Held] = {
    "by channel": on_grid(CHANNEL),
    "by channel, symmetric": on_grid(WeightGrid(8, ScaleSharing.CHANNEL, Lies.SYMMETRIC)),
    "by tensor": on_grid(WeightGrid(8, ScaleSharing.TENSOR, Lies.WITH_ZERO)),
    "4 bits by block": on_grid(WeightGrid(4, ScaleSharing.BLOCK_32, Lies.FROM_LEAST)),
    "float16": half(cut=False),
    "float16, cut": half(cut=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_holds_weights_so_is_healthy(tmp_path: Path, way: str) -> None:
    found = compared(tmp_path, WAYS[way])
    assert found.run.verdict is not Verdict.DIVERGED
    assert not found.suspects
    said = next(each for each in found.run.warnings if "the graph says nothing" in each)
    assert f"{LAYERS} products hold their weights in" in said
    assert found.run.analysis.arithmetic.quantised == ("float16" not in way)


@pytest.mark.parametrize("way", ["by channel", "float16, cut"])
def test_one_wrong_weight_among_them_is_found(tmp_path: Path, way: str) -> None:
    found = compared(tmp_path, WAYS[way], wrong=2)
    assert [each.op for each in found.origins] == ["product2"]


def test_a_product_may_hold_its_weight_as_it_is(tmp_path: Path) -> None:
    found = compared(tmp_path, WAYS["by channel"], exact=1)
    assert not found.origins
    assert not found.suspects
    assert any(f"{LAYERS - 1} products hold" in each for each in found.run.warnings)


def test_weights_that_are_cut_are_no_operands_that_are_cut(tmp_path: Path) -> None:
    # Both make all outputs of positive numbers smaller: HF32 has one bit more, but cuts both.
    rng = np.random.default_rng(0)
    positive = [np.abs(rng.standard_normal(w.shape)).astype(np.float32) / 64 for w in WEIGHTS]
    found = compared(tmp_path, WAYS["float16, cut"], weights=positive, x=np.abs(X))
    assert not found.suspects
    assert any(f"{LAYERS} products hold" in each for each in found.run.warnings)


@pytest.mark.parametrize(("times", "every"), [(3, 4), (8, 10)])
def test_a_few_products_of_many_may_hold_their_weights_alike(
    tmp_path: Path, times: int, every: int
) -> None:
    # Of 40 products 16 are looked at first: that shows too few of these, so all are looked at.
    calls, way = iter(range(times * LAYERS)), WAYS["by channel"]
    weights = WEIGHTS * times
    found = compared(tmp_path, lambda w: w if next(calls) % every else way(w), weights=weights)
    assert not found.origins
    assert not found.suspects
    assert any("4 products hold their weights" in each for each in found.run.warnings)


def test_a_product_in_integers_of_rows_with_scales_of_their_own_is_healthy(tmp_path: Path) -> None:
    found = compared(tmp_path, WAYS["by channel"], met=ROWS)
    assert not found.origins
    assert not found.suspects
    assert any(f"{LAYERS} of which round what they multiply" in each for each in found.run.warnings)


def test_a_wrong_weight_in_one_of_these_is_found(tmp_path: Path) -> None:
    found = compared(tmp_path, WAYS["by channel"], met=ROWS, wrong=2)
    assert [each.op for each in found.origins] == ["product2"]


def test_one_product_with_a_coarse_weight_among_exact_ones_is_a_fault(tmp_path: Path) -> None:
    calls = iter(range(LAYERS))
    found = compared(tmp_path, lambda w: WAYS["by tensor"](w) if next(calls) == 3 else w, exact=-1)
    assert [each.op for each in found.origins] == ["product3"]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_a_grid_is_as_coarse_as_its_bits(grid: WeightGrid) -> None:
    value = RNG.standard_normal((256, 96, 1)).astype(np.float32)
    assert grid.fits(value.shape, (1, 0)), "all grids have whole blocks of these"
    made = grid.quantiser((1, 0))(value)
    steps = 2.0**grid.bits - 1
    widest = float(value.max() - value.min())
    assert 0 < np.abs(made - value).max() <= 1.2 * widest / steps
    assert np.array_equal(grid.quantiser((1, 0))(made.astype(np.float32)), made) or (
        np.abs(grid.quantiser((1, 0))(made) - made).max() < 0.51 * widest / steps
    )


def test_pieces_of_memory_are_as_many_as_output_channels() -> None:
    """Of a transposed convolution, whose weight has its output channels behind."""
    grid = WeightGrid(8, ScaleSharing.PIECE, Lies.FROM_LEAST)
    value = RNG.standard_normal((6, 4, 2, 2)).astype(np.float32)
    assert grid.fits(value.shape, (1, 0))
    assert not grid.fits(value.shape, (0, 1)), "channels that lie first are those pieces"
    pieces = WeightGrid(8, ScaleSharing.CHANNEL, Lies.FROM_LEAST).quantiser((0, 1))
    expected = pieces(value.reshape(4, -1)).reshape(value.shape)
    assert np.array_equal(grid.quantiser((1, 0))(value), expected)


def of_halves(folder: Path, ops: Callable[[Array], list[onnx.NodeProto]], divisor: Held) -> RunData:
    """A device that cuts its weights to halves; *ops* stand behind each product and are made of its
    slope, of which they are given the halves as well, and *divisor* changes what they divide by."""
    cut = half(cut=True)
    for side in ("golden", "device"):
        on_device = side == "device"
        slope, by = np.array(1 / 6, np.float32), np.array(np.sqrt(12), np.float32)
        weights = [cut(each) if on_device else each for each in WEIGHTS]
        kept = {"d": divisor(by) if on_device else by}
        kept |= {f"w{n}": weight for n, weight in enumerate(weights)}
        nodes = []
        for n in range(LAYERS):
            nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"m{n}"], f"product{n}"))
            for node in ops(cut(slope) if on_device else slope):
                node.input[0], node.output[0], node.name = f"m{n}", f"x{n + 1}", f"behind{n}"
                nodes.append(node)
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, X.shape)],
            [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, X.shape)],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in kept.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        path = folder / f"{side}.onnx"
        onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        np.save(folder / "x0.npy", X)
        capture(CaptureRequest(path, folder / side, {"x0": folder / "x0.npy"}))
    golden = folder / "golden.onnx"
    return compare(CompareRequest(golden, folder / "golden", golden, folder / "device"))


@pytest.mark.parametrize("inverse", [False, True])
def test_what_is_divided_by_may_be_held_as_its_inverse(tmp_path: Path, inverse: bool) -> None:
    found = of_halves(
        tmp_path,
        lambda _: [helper.make_node("Div", ["", "d"], [""])],
        half(cut=True, inverse=inverse),
    )
    assert found.run.verdict is not Verdict.DIVERGED
    assert not found.suspects


def test_numbers_in_attributes_may_be_held_as_weights_are(tmp_path: Path) -> None:
    def hard(slope: Array) -> list[onnx.NodeProto]:
        return [helper.make_node("HardSigmoid", [""], [""], alpha=float(slope), beta=0.0)]

    found = of_halves(tmp_path, hard, half(cut=True))
    assert found.run.verdict is not Verdict.DIVERGED
    assert not found.suspects


def test_a_factor_moves_a_grid_that_is_not_by_output_channel() -> None:
    value = RNG.standard_normal((32, 16)).astype(np.float32)
    factor = RNG.uniform(0.1, 10, 16)
    by_channel, by_tensor = (
        WeightGrid(8, each, Lies.FROM_LEAST) for each in (ScaleSharing.CHANNEL, ScaleSharing.TENSOR)
    )
    for grid, same in ((by_channel, True), (by_tensor, False)):
        plain, folded = grid.quantiser((1, 0))(value), grid.quantiser((1, 0), factor)(value)
        assert np.allclose(plain, folded, atol=1e-6) is same


def test_a_scale_that_is_next_to_nothing_may_be_taken_for_0() -> None:
    value = RNG.standard_normal((32, 16)).astype(np.float32)
    value[:, 3] *= 1e-6
    quantised = CHANNEL.quantiser((1, 0))
    assert np.unique(quantised(value)[:, 3]).size > 8
    assert np.unique(quantised(value, 2.0)[:, 3]).size == 1


def test_halves_that_are_cut_are_never_larger() -> None:
    value = RNG.standard_normal(1000).astype(np.float32)
    cut, rounded = half(cut=True)(value), half(cut=False)(value)
    assert (np.abs(cut) <= np.abs(value)).all()
    assert np.array_equal(rounded, value.astype(np.float16).astype(np.float32))
    folded = half(cut=False, factor=np.float64(3))(value)
    assert not np.array_equal(folded, rounded)
    assert np.abs(folded - value).max() < 2e-3


def test_a_recurrent_layer_of_such_a_device_may_hold_its_weights_so_as_well(
    tmp_path: Path,
) -> None:
    hidden = 16
    layer = {
        "W": (RNG.standard_normal((1, 4 * hidden, CHANNELS)) / 8).astype(np.float32),
        "R": (RNG.standard_normal((1, 4 * hidden, hidden)) / 4).astype(np.float32),
    }
    nodes = []
    for n in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"m{n}"], f"product{n}"))
        nodes.append(helper.make_node("Tanh", [f"m{n}"], [f"x{n + 1}"], f"tanh{n}"))
    read = [f"x{LAYERS}", "W", "R"]
    nodes.append(helper.make_node("LSTM", read, ["y"], "layer", hidden_size=hidden))
    held = on_grid(CHANNEL)
    by_row = CHANNEL.quantiser((1, 2))
    for side in ("golden", "device"):
        quantised = side == "device"
        weights = {f"w{n}": held(w) if quantised else w for n, w in enumerate(WEIGHTS)}
        weights |= {name: by_row(w) if quantised else w for name, w in layer.items()}
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [6, 4, CHANNELS])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(each, name) for name, each in weights.items()],
        )
        path = tmp_path / f"{side}.onnx"
        opset = [helper.make_opsetid("", 14)]
        onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
        np.save(tmp_path / "x0.npy", X.reshape(6, 4, CHANNELS))
        capture(CaptureRequest(path, tmp_path / side, {"x0": tmp_path / "x0.npy"}))
    golden = tmp_path / "golden.onnx"
    found = compare(CompareRequest(golden, tmp_path / "golden", golden, tmp_path / "device"))
    assert not found.origins
    assert not found.suspects
    assert any(f"{LAYERS} products hold" in each for each in found.run.warnings)


def test_zeros_behind_a_relu_do_not_hide_how_a_small_product_rounds(tmp_path: Path) -> None:
    """A squeezed image meets a small product behind which most values are 0 in any arithmetic; it
    rounds what it multiplies otherwise than the products before it."""
    x, small = np.abs(X), -np.abs(WEIGHTS[0][:, :40]) - 0.1
    small[:, ::4] *= -1.0
    nodes, device = [], {}
    for n, weight in enumerate(WEIGHTS):
        nodes.append(helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"p{n}"], f"product{n}"))
        nodes.append(helper.make_node("Sigmoid", [f"p{n}"], [f"x{n + 1}"], f"sigmoid{n}"))
        device[f"product{n}"] = ROWS(x) @ WAYS["by channel"](weight)
        x = device[f"sigmoid{n}"] = 1 / (1 + np.exp(-device[f"product{n}"]))
    nodes += [
        helper.make_node("ReduceMean", [f"x{LAYERS}"], ["squeezed"], "squeeze", axes=[0]),
        helper.make_node("MatMul", ["squeezed", "small"], ["s"], "small"),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    from_least = DynamicScale(SharedBy.PATCH, symmetric=False, from_least=True)
    device["squeeze"] = x.mean(axis=0, keepdims=True)
    held = WAYS["by channel"](small.astype(np.float32))
    device["relu"] = np.maximum(from_least(device["squeeze"]) @ held, 0)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, f"w{n}") for n, weight in enumerate(WEIGHTS)]
        + [numpy_helper.from_array(small.astype(np.float32), "small")],
    )
    path = tmp_path / "model.onnx"
    opset = [helper.make_opsetid("", 13)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    np.save(tmp_path / "x0.npy", np.abs(X))
    for side in ("golden", "device"):
        capture(CaptureRequest(path, tmp_path / side, {"x0": tmp_path / "x0.npy"}))
    for dump in (tmp_path / "device").glob("*.npy"):
        op = dump.name.partition(".")[0]
        if op in device:
            np.save(dump, device[op].astype(np.float32))
        elif op == "small":
            dump.unlink()
    run = compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))
    assert not run.origins
    assert any(f"{LAYERS + 1} products hold their weights" in text for text in run.run.warnings)
