"""Devices whose linear layers read their operands in eight bits or fewer."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from dumped_sides import guilty
from narrow_device import (
    NarrowDevice,
    as_it_is,
    bf16,
    blocks,
    e4m3_by_row,
    int4_groups,
    lower_e2m1,
    summed,
)

from graphstore.model import Verdict

pytestmark = pytest.mark.thorough

MXFP4 = blocks(32, lambda value: value.astype(ml_dtypes.float4_e2m1fn).astype(np.float32), 6.0)
LOWER_MXFP4 = blocks(32, lower_e2m1, 6.0)


def weaker(value: np.ndarray) -> np.ndarray:
    """One channel of 12 % too little."""
    return value * np.where(np.arange(value.shape[1]) == 7, np.float32(0.88), np.float32(1))


@pytest.mark.parametrize(
    ("activation", "weight", "said"),
    [
        (e4m3_by_row, e4m3_by_row, "e4m3 by row"),
        (MXFP4, MXFP4, "e2m1 by 32, power of two, up"),
        (LOWER_MXFP4, LOWER_MXFP4, "e2m1 (ties to zero) by 32, power of two, up"),
        (as_it_is, int4_groups, "plain x int4 by 32, from the least"),
        (e4m3_by_row, int4_groups, "e4m3 by row x int4 by 32, from the least"),
    ],
)
def test_a_healthy_device_has_no_origin_and_a_fault_of_one_channel_is_the_only_one(
    tmp_path, activation, weight, said
) -> None:
    net = NarrowDevice(tmp_path)
    healthy = net.compared(net.values(activation, weight))
    assert not healthy.origins
    assert healthy.run.analysis.arithmetic.operands == {"linear layers": said}
    faulty = net.compared(net.values(activation, weight, faults={"m3": weaker}))
    assert guilty(faulty) == {"m3"}


def e4m3_by_tensor(rows: np.ndarray) -> np.ndarray:
    """One scale for all, which one NaN makes NaN."""
    scale = np.abs(rows).max() / np.float32(448)
    return (rows / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale


def test_a_product_held_in_the_plain_type_before_its_bias_is_no_way_of_adding_up(tmp_path) -> None:
    net = NarrowDevice(tmp_path, wide=64, merged=True)
    healthy = net.compared(net.values(e4m3_by_tensor, e4m3_by_tensor))
    assert not healthy.origins
    assert healthy.run.analysis.arithmetic.operands == {"linear layers": "e4m3 by tensor"}


def test_a_nan_spreads_by_the_scale_it_shares_and_hides_no_format(tmp_path) -> None:
    net = NarrowDevice(tmp_path)

    def with_nan(value: np.ndarray) -> np.ndarray:
        return np.where(np.arange(value.shape[1]) == 5, np.float32("nan"), value)

    data = net.compared(net.values(e4m3_by_tensor, e4m3_by_tensor, faults={"m2": with_nan}))
    assert [origin.op for origin in data.origins] == ["m2"]
    assert data.run.analysis.arithmetic.operands == {"linear layers": "e4m3 by tensor"}


def test_the_format_is_said_in_a_sentence(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    said = net.compared(net.values(e4m3_by_row, MXFP4)).run.warnings
    assert any(
        each.startswith(
            "Linear layers: operands activations e4m3 with a scale for each row (token, output "
            "channel), weights e2m1 with a power-of-two scale for each 32 along the sum, sums "
            "float32; 1 op of these with operands as they are; everything else bfloat16"
        )
        for each in said
    )


@pytest.mark.parametrize(
    ("chunk", "operands", "said", "fault"),
    [
        (1, as_it_is, "plain, sums bf16 in turn", weaker),
        # Ties of the format may fall either way, and each takes a sum to others of its roundings.
        (16, e4m3_by_row, "e4m3 by row, sums bf16 by 16", lambda value: value / 2),
    ],
)
def test_sums_in_16_bits_are_the_devices_and_hide_no_fault(
    tmp_path, chunk, operands, said, fault
) -> None:
    net = NarrowDevice(tmp_path)

    def values(**faults):
        return net.values(operands, operands, plain=(), product=summed(chunk), faults=faults)

    healthy = net.compared(values())
    assert not healthy.origins
    assert healthy.run.analysis.arithmetic.operands == {"linear layers": said}
    assert guilty(net.compared(values(m3=fault))) == {"m3"}


def test_layers_that_stay_in_the_plain_type_are_held_against_that(tmp_path) -> None:
    """A head in bfloat16 that loses as much as e4m3 would is wrong."""
    net = NarrowDevice(tmp_path)
    noise = 1 + 0.03 * np.random.default_rng(1).standard_normal((48, 40)).astype(np.float32)
    plain = ("m2", "head")
    assert not net.compared(net.values(e4m3_by_row, e4m3_by_row, plain=plain)).origins
    faults = {"m2": weaker, "head": lambda value: value * noise}
    values = net.values(e4m3_by_row, e4m3_by_row, plain=plain, faults={"m2": weaker})
    assert guilty(net.compared(values)) == {"m2"}
    values = net.values(e4m3_by_row, e4m3_by_row, plain=plain, faults=faults)
    assert "m2" in guilty(net.compared(values))


def test_a_device_in_float32_may_read_narrow_operands_too(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    data = net.compared(net.values(e4m3_by_row, e4m3_by_row, held=as_it_is))
    assert not data.origins
    assert data.run.analysis.arithmetic.operands == {"linear layers": "e4m3 by row"}
    assert data.run.analysis.doubt == ""


def test_two_formats_may_stand_beside_each_other(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    first = net.values(e4m3_by_row, e4m3_by_row)
    values = dict(first)
    for k in (1, 3, 5):  # these read what the device has before them in blocks
        given = values["x" if k == 0 else f"t{k - 1}"]
        made = bf16(MXFP4(given) @ MXFP4(bf16(net.weights[f"w{k}"]).T).T)
        values |= {f"m{k}": made, f"a{k}": bf16(made + bf16(net.weights[f"b{k}"]))}
        values[f"t{k}"] = bf16(np.tanh(values[f"a{k}"]))
        if k < 5:
            given = values[f"t{k}"]
            made = bf16(e4m3_by_row(given) @ e4m3_by_row(bf16(net.weights[f"w{k + 1}"]).T).T)
            values |= {f"m{k + 1}": made, f"a{k + 1}": bf16(made + bf16(net.weights[f"b{k + 1}"]))}
            values[f"t{k + 1}"] = bf16(np.tanh(values[f"a{k + 1}"]))
    values["head"] = bf16(values["t5"] @ bf16(net.weights["w"]))
    assert not net.compared(values).origins


def test_one_product_in_fewer_bits_than_its_like_is_a_fault(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    plain = [*(f"m{k}" for k in range(6) if k != 2), "head"]
    assert guilty(net.compared(net.values(MXFP4, MXFP4, plain=plain))) == {"m2"}


class Lossy:
    """Products that lose a share of what they compute, nobody knows how."""

    def __init__(self, share: float) -> None:
        self.share, self.draw = share, np.random.default_rng(5)

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """*value* with noise of one size."""
        size = self.share * np.sqrt(np.mean(np.square(value)))
        return value + (size * self.draw.standard_normal(value.shape)).astype(np.float32)


def test_what_all_layers_lose_in_an_unknown_way_is_a_doubt_and_no_fault_of_any(tmp_path) -> None:
    net = NarrowDevice(tmp_path)
    names = [*(f"m{k}" for k in range(6)), "head"]
    faults = {name: Lossy(0.043) for name in names}
    data = net.compared(net.values(as_it_is, as_it_is, faults=faults))
    assert not data.origins
    assert data.run.verdict is Verdict.UNDECIDED
    assert "its linear layers lose 0.043 of what they compute" in data.run.analysis.doubt
    faults["m4"] = Lossy(0.4)
    data = net.compared(net.values(as_it_is, as_it_is, faults=faults))
    assert guilty(data) == {"m4"}
    assert data.run.verdict is Verdict.DIVERGED
