"""Devices whose tensors are integers, each with a scale and a zero point: TensorFlow Lite."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture.capture_model import CaptureRequest, capture
from divergraph.rootcause.devices.held_weights.held_integers import WeightQuantiser, with_held
from divergraph.rootcause.devices.quantisers import NO_QUANTISERS
from divergraph.rootcause.options import MethodChoice
from graphstore.model import DType, Guilt, Tensor, Verdict
from importers.registry import read_graph

DATA = Path(__file__).parents[2] / "data" / "tflite"
DEVICE = DATA / "net.int8.tflite"
ONE = np.ones(())


def analysed(tmp_path: Path, dump: Path):
    golden = tmp_path / "golden"
    inputs = {"image:0": DATA / "image.npy"}
    capture(CaptureRequest(DATA / "net.onnx", golden, inputs=inputs))
    request = CompareRequest(DATA / "net.onnx", golden, DEVICE, dump)
    return compare(replace(request, method=MethodChoice.ROOT_CAUSE))


def spoilt(tmp_path: Path, tensor: str, change) -> Path:
    """The dump of the healthy device with the integers of one tensor changed."""
    folder = tmp_path / "device"
    folder.mkdir()
    for file in (DATA / "dump8").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    lines = (folder / "mapping.csv").read_text().splitlines()
    numbers = (each.split(",", 1)[0] for each in lines if tensor in each)
    files = [folder / f"{number}.npy" for number in numbers]
    (file,) = (each for each in files if np.load(each).dtype == np.int8)
    value = np.load(file)
    np.save(file, change(value.astype(int)).clip(-128, 127).astype(np.int8))
    return folder


def test_a_healthy_device_in_integers_has_noise_and_no_fault(tmp_path):
    data = analysed(tmp_path, DATA / "dump8")
    splits = [each.split for each in data.comparisons if each.split and not each.split.failure]
    assert data.run.verdict is Verdict.CLEAN
    assert {each.guilt for each in splits} == {Guilt.NONE}
    # the floors are no wider than the rounding that is there
    assert max(each.suspicion for each in splits) > 0.9


@pytest.mark.parametrize(("steps", "verdict"), [(1, Verdict.CLEAN), (60, Verdict.DIVERGED)])
def test_one_step_is_rounding_and_many_are_a_fault(tmp_path, steps, verdict):
    def moved(value):
        value[..., 1] += steps
        return value

    data = analysed(tmp_path, spoilt(tmp_path, "pw_1/BiasAdd;", moved))
    assert data.run.verdict is verdict
    if verdict is Verdict.DIVERGED:
        assert data.origins[0].op.startswith("functional_1/pw_1/BiasAdd")


def test_the_range_of_a_weight_gives_its_scale():
    weight = np.array([[0.1, 12.7], [-1.27, 5.04]], np.float32)
    by_row = WeightQuantiser(ONE, 0 * ONE, -128, 127, 0, slices=2)
    by_column = WeightQuantiser(ONE, 0 * ONE, -128, 127, -1, slices=2)
    of_all = WeightQuantiser(ONE, 0 * ONE, -128, 127)
    assert by_row(weight) == pytest.approx(np.array([[0.1, 12.7], [-1.27, 5.04]]), abs=1e-4)
    assert by_column(weight)[0] == pytest.approx([0.1, 12.7])
    assert of_all(weight)[1] == pytest.approx([-1.3, 5.0])


def test_a_folded_factor_rounds_a_weight_alike():
    weight = np.random.default_rng(1).normal(size=(4, 9)).astype(np.float32)
    factors = np.array([[2], [0.5], [8], [1]], np.float32)
    quantiser = WeightQuantiser(ONE, 0 * ONE, -128, 127, 0, slices=4)
    assert np.array_equal(quantiser(weight * factors), quantiser(weight) * factors)


def test_a_range_to_one_side_uses_all_integers():
    value = np.linspace(0, 2.55, 256, dtype=np.float32)
    quantiser = WeightQuantiser(ONE, np.array(-128.0), -128, 127)
    assert quantiser(value) == pytest.approx(value, abs=1e-6)
    assert np.array_equal(quantiser(np.zeros(3, np.float32)), np.zeros(3))


def run_on(device):
    return SimpleNamespace(device=device, golden=read_graph(DATA / "net.onnx"))


def test_floats_in_and_out_of_integer_weights_hide_their_scales():
    graph = read_graph(DATA / "net.tflite")
    (conv,) = (each for each in graph.ops if "pw_1/BiasAdd" in each.name)
    assert with_held(NO_QUANTISERS, run_on(graph), ()).unseen == frozenset()
    weight = conv.inputs[1].tensor
    constants = tuple(
        replace(each, tensor=Tensor(weight, DType.INT8, each.tensor.shape))
        if each.tensor.name == weight
        else each
        for each in graph.constants
    )
    scaled = replace(conv, attrs={**conv.attrs, "input_1_scales": 4})
    ops = tuple(scaled if each is conv else each for each in graph.ops)
    dynamic = replace(graph, ops=ops, constants=constants)
    found = with_held(NO_QUANTISERS, run_on(dynamic), ())
    assert (found.unseen, found.held) == (frozenset({conv.id}), {})
