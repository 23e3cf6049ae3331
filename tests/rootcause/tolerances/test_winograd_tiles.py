"""Convolutions over transformed tiles are told by the errors of the transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_files import written_chain

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.tiles.winograd import INTEGERS, INVERSES, Tiles
from graphstore.contract import RunData
from graphstore.model import Verdict

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(12)
CHANNELS, SIZE, LAYERS = 16, 24, 3
WEIGHTS = [
    (RNG.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 12).astype(np.float32) for _ in range(LAYERS)
]
X = RNG.standard_normal((1, CHANNELS, SIZE, SIZE)).astype(np.float32)


def model(path: Path) -> Path:
    return written_chain(path, ("Conv", "Relu"), "conv", X, WEIGHTS)


def over_tiles(x: Array, w: Array, tiles: Tiles) -> Array:
    """The convolution as a device computes it: transforms by matrix products, tile by tile."""
    back, of_weights, of_values = (each.astype(np.float32) for each in tiles.transforms(3))
    step = tiles.reach - 2
    size = x.shape[2] - 2
    made = np.zeros((w.shape[0], size + step, size + step), np.float32)
    w = np.einsum("ai,ocij,bj->ocab", of_weights, w, of_weights)
    x = np.pad(x[0], ((0, 0), (0, step), (0, step)))
    for row in range(0, size, step):
        for column in range(0, size, step):
            tile = x[:, row : row + tiles.reach, column : column + tiles.reach]
            tile = of_values @ tile @ of_values.T
            product = np.einsum("ocab,cab->oab", w, tile)
            made[:, row : row + step, column : column + step] = back @ product @ back.T
    return made[None, :, :size, :size]


def in_another_order(x: Array, w: Array, tiles: Tiles) -> Array:
    """As ``over_tiles``, but each product and sum is rounded in another way: errors of the same
    size at each place of a tile, and otherwise unrelated."""
    right = over_tiles(x.astype(np.float64), w.astype(np.float64), Tiles(4, INTEGERS))
    errors = over_tiles(x, w, tiles) - right
    return (right + np.random.default_rng(5).permutation(errors.squeeze(0))[None]).astype(
        np.float32
    )


def compared(
    folder: Path, tiles: Tiles, *, wrong: str = "", computed: Callable[..., Array] = over_tiles
) -> RunData:
    path = model(folder / "model.onnx")
    np.save(folder / "x0.npy", X)
    capture(CaptureRequest(path, folder / "golden", {"x0": folder / "x0.npy"}))
    device = folder / "device"
    device.mkdir()
    names = {each.name.split(".")[0]: each.name for each in (folder / "golden").glob("*.npy")}
    x = X
    for n, w in enumerate(WEIGHTS):
        found = computed(x, w, tiles)
        if wrong == "a weight" and n == 1:
            changed = w.copy()
            changed[5, 3, 1, 1] *= 1.5
            found = computed(x, changed, tiles)
        if wrong == "noise" and n == 1:
            size = np.linalg.norm(found - over_tiles(x, w, Tiles(4, INTEGERS)))
            noise = np.random.default_rng(1).standard_normal(found.shape)
            found = over_tiles(x, w, Tiles(4, INTEGERS)) + noise * size / np.sqrt(noise.size)
            found = found.astype(np.float32)
        np.save(device / names[f"conv{n}"], found)
        x = np.maximum(found, 0)
        np.save(device / names[f"relu{n}"], x)
    return compare(CompareRequest(path, folder / "golden", path, device))


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(INTEGERS, id="integers"),
        pytest.param(INVERSES, id="inverses", marks=pytest.mark.exhaustive),
    ],
)
def test_a_device_that_computes_so_is_healthy(tmp_path: Path, points: tuple[float, ...]) -> None:
    found = compared(tmp_path, Tiles(8, points))
    assert found.run.verdict is Verdict.CLEAN
    assert not found.suspects


@pytest.mark.exhaustive
def test_one_that_adds_up_in_another_order_is_healthy_as_well(tmp_path: Path) -> None:
    found = compared(tmp_path, Tiles(8, INTEGERS), computed=in_another_order)
    assert found.run.verdict is Verdict.CLEAN
    assert not found.suspects


def test_a_fault_of_one_that_adds_up_in_another_order_is_seen(tmp_path: Path) -> None:
    found = compared(tmp_path, Tiles(8, INTEGERS), wrong="a weight", computed=in_another_order)
    assert [each.op for each in found.origins] == ["conv1"]


@pytest.mark.parametrize("wrong", ["a weight", pytest.param("noise", marks=pytest.mark.exhaustive)])
def test_a_fault_of_an_op_that_computes_so_is_seen(tmp_path: Path, wrong: str) -> None:
    found = compared(tmp_path, Tiles(8, INTEGERS), wrong=wrong)
    assert found.run.verdict is Verdict.DIVERGED
    assert [each.op for each in found.origins] == ["conv1"]


def test_without_the_tiles_it_would_be_taken_for_short_operands(tmp_path: Path) -> None:
    found = compared(tmp_path, Tiles(8, INTEGERS))
    assert not any("mantissa" in each for each in found.run.warnings)


def test_the_reckoning_says_what_was_found(tmp_path: Path) -> None:
    found = compared(tmp_path, Tiles(8, INTEGERS), wrong="a weight")
    (reckoning,) = found.run.analysis.reckonings
    step = next(each for each in reckoning.adjustments if each.tolerance == "Winograd tiles")
    assert step.numbers["reach"] == 8
    assert step.numbers["cosine"] > 0.2
