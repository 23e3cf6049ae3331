"""Masks of attention: constants beyond float16 that stand for minus infinity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.tolerances.masks import (
    Mask,
    past_the_end,
    sentinel_values,
    stands_for_infinity,
    without,
)

LOWEST = float(np.finfo(np.float32).min)


def attention(
    folder: Path,
    hide: float,
    device: Callable[[str, np.ndarray], np.ndarray],
    kind: type = np.float16,
    seen: int = 9,
    masking: list[onnx.NodeProto] | None = None,
):
    """softmax(x + (1 - seen) * hide) w; *device* makes its values of the golden ones by op.
    *masking* nodes may make the scores in another way.
    """
    rng = np.random.default_rng(3)
    constants = {
        "one": np.array(1, np.float32),
        "warmth": np.array(1.25, np.float32),
        "hide": np.array(hide, np.float32),
        "w": rng.standard_normal((12, 7)).astype(np.float32),
    }
    adding = [
        helper.make_node("Sub", ["one", "seen"], ["unseen"], name="unseen"),
        helper.make_node("Mul", ["unseen", "hide"], ["mask"], name="mask"),
        helper.make_node("Add", ["x", "mask"], ["scores"], name="scores"),
    ]
    graph = helper.make_graph(
        [
            *(masking or adding),
            helper.make_node("Softmax", ["scores"], ["p"], name="p"),
            helper.make_node("MatMul", ["p", "w"], ["y"], name="y"),
        ],
        "attention",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [12, 12]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [1, 12]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    onnx.save_model(model, str(path))
    np.save(folder / "x.npy", rng.standard_normal((12, 12)).astype(np.float32))
    np.save(folder / "seen.npy", np.array([[1.0] * seen + [0.0] * (12 - seen)], np.float32))
    inputs = {"x": folder / "x.npy", "seen": folder / "seen.npy"}
    capture(CaptureRequest(path, folder / "golden", inputs))
    (folder / "device").mkdir()
    for each in (folder / "golden").glob("*.npy"):
        with np.errstate(over="ignore", invalid="ignore"):
            value = device(each.name.partition(".")[0], np.load(each)).astype(kind)
        np.save(folder / "device" / each.name, value)
    return CompareRequest(path, folder / "golden", path, folder / "device")


def held_as(what: float) -> Callable[[str, np.ndarray], np.ndarray]:
    """A device that has *what* for the numbers it does not hold."""
    return lambda _op, value: np.where(value < -60000, what, value)


@pytest.mark.parametrize("hide", [-1e9, LOWEST])
@pytest.mark.parametrize("what", [-np.inf, -65504, -1e4])
def test_however_a_device_holds_minus_infinity_no_op_is_to_blame(tmp_path, hide, what):
    data = compare(attention(tmp_path, hide, held_as(what)))
    assert not data.origins
    assert not data.suspects


def test_what_is_not_hidden_is_judged_as_ever(tmp_path):
    def louder(op: str, value: np.ndarray) -> np.ndarray:
        seen = held_as(-np.inf)(op, value)
        return np.where(np.isfinite(seen), seen * 1.05, seen) if op == "scores" else seen

    assert compare(attention(tmp_path, LOWEST, louder)).origins[0].op == "scores"


def test_a_mask_that_does_not_hide_is_wrong(tmp_path):
    def seeing(op: str, value: np.ndarray) -> np.ndarray:
        return np.where(value < -60000, 0, value) if op == "mask" else held_as(-np.inf)(op, value)

    assert compare(attention(tmp_path, LOWEST, seeing)).origins[0].op == "mask"


CHOOSING = [
    helper.make_node("Equal", ["seen", "one"], ["visible"], name="visible"),
    helper.make_node("Where", ["visible", "x", "hide"], ["scores"], name="scores"),
]


@pytest.mark.parametrize("what", [-np.inf, -65504, -1e4])
@pytest.mark.parametrize(
    "wrong", [None, slice(0, None), slice(7, 8)], ids=["healthy", "all", "a row"]
)
def test_a_choice_that_does_not_hide_is_wrong_however_little_float16_holds_of_it(
    tmp_path, what, wrong
):
    """The floor of the choice alone would say that all of -1e9 may be lost."""

    def device(op: str, value: np.ndarray) -> np.ndarray:
        value = held_as(what)(op, value)
        if op == "scores" and wrong is not None:
            value[wrong] = np.where(value[wrong] < -9000, 0.5, value[wrong])
        return value

    data = compare(attention(tmp_path, -1e9, device, masking=CHOOSING))
    assert [found.op for found in data.origins[:1]] == ([] if wrong is None else ["scores"])


COOLED = [
    helper.make_node("Equal", ["seen", "one"], ["visible"], name="visible"),
    helper.make_node("Where", ["visible", "x", "hide"], ["chosen"], name="chosen"),
    helper.make_node("Mul", ["chosen", "warmth"], ["scores"], name="scores"),
]


@pytest.mark.parametrize("dumped", [True, False], ids=["dumped", "not dumped"])
def test_a_mask_that_is_scaled_past_the_end_of_float16_is_infinite_on_healthy_devices(
    tmp_path, dumped
):
    """A temperature below 1 behind the mask: -65504 / 0.8 is no overflow anyone made."""

    def device(op: str, value: np.ndarray) -> np.ndarray:
        return held_as(-np.inf if op == "scores" else -65504)(op, value)

    request = attention(tmp_path, -1e9, device, masking=COOLED)
    if not dumped:
        (hidden,) = request.device_dump.glob("chosen.*")
        hidden.unlink()
    assert not compare(request).origins


def test_infinities_where_numbers_belong_are_wrong_however_large_these_are(tmp_path):
    """1.5e5 is no constant of the op."""

    def overflowing(op: str, value: np.ndarray) -> np.ndarray:
        return value * 1e5 if op == "scores" else held_as(-np.inf)(op, value)

    assert compare(attention(tmp_path, LOWEST, overflowing)).origins[0].op == "scores"


def test_float32_holds_minus_infinity_and_the_rest_is_judged_as_ever(tmp_path):
    def louder(op: str, value: np.ndarray) -> np.ndarray:
        return np.where(value > -1e8, value * 1.0001, value) if op == "scores" else value

    data = compare(attention(tmp_path, -1e9, louder, kind=np.float32))
    assert data.origins[0].op == "scores"


@pytest.mark.parametrize("wrong", [False, True], ids=["healthy", "not divided by its sum"])
def test_where_all_is_hidden_no_value_is_a_little_more_so_than_others(tmp_path, wrong):
    def device(op: str, value: np.ndarray) -> np.ndarray:
        return np.ones_like(value) if wrong and op == "p" else value

    data = compare(attention(tmp_path, -1e9, device, kind=np.float32, seen=0))
    first = data.origins[0].op if data.origins else ""
    assert first == ("p" if wrong else "")


def test_a_mask_makes_zeros_where_it_is_held_and_the_end_of_the_type_where_not() -> None:
    mask = Mask(np.array([True, False, False]), np.array([False, True, False]), 100.0)
    assert without(mask, np.array([-1e9, -1e9, -1e9])).tolist() == [0.0, -100.0, -1e9]
    held = Mask(np.array([True, False]), np.array([False, False]), 100.0)
    assert without(held, np.array([-1e9, -1e9])).tolist() == [0.0, -1e9]


def test_only_a_large_number_that_stands_over_and_over_is_told_as_infinity() -> None:
    assert stands_for_infinity(np.array([1.0, -1e4, -1e4])).tolist() == [False, True, True]
    for plain in ([1.0, -1e4], [1.0, 1.0], [np.inf, np.inf], []):
        assert stands_for_infinity(np.array(plain)) is None


def test_integers_and_what_the_type_holds_stand_for_nothing() -> None:
    assert sentinel_values(np.array([-1e9, 1.0]), 65504.0) == (-1e9,)
    for other in (np.array([-(10**9)]), np.array([6e4]), np.array([]), np.array([np.inf])):
        assert sentinel_values(other, 65504.0) == ()


def test_what_is_scaled_past_the_end_is_infinite_only_where_it_stood_for_infinity() -> None:
    reference, device = np.array([-8e4, 1.0]), np.array([-np.inf, 1.0])

    def held(given: np.ndarray) -> bool:
        return past_the_end(reference, device, [given], (), 65504.0) is not None

    assert held(np.array([-65504.0, 1.0]))
    assert not held(np.array([-5e4, 1.0]))
    assert not held(np.array([-65504, 1]))  # integers are no mask
    assert not held(np.array([[-65504.0, 1.0]]))
