"""An op that is far worse than all others of its run is suspect, below the limits as well."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.arithmetic.families import Family
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.standing_out import limit_of, standing_out, unlike_their_family
from graphstore.model import TensorRef, Verdict

OPS = 80


@pytest.mark.parametrize("ops", [32, 64, 200, 900])
@pytest.mark.parametrize("spread", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("exact", [0.0, 0.5])
def test_noise_alone_hardly_ever_stands_out(ops: int, spread: float, exact: float) -> None:
    """Runs in which a share of the ops is off by its floor nearly exactly."""
    rng = np.random.default_rng(7)
    made = 0.5 * np.exp(spread * rng.standard_normal((200, ops)))
    alike = int(exact * ops)
    made[:, :alike] = np.exp(0.01 * rng.standard_normal((200, alike)))
    found = sum(max(each) > limit_of(each) for each in made.tolist())
    assert found <= 3


def test_the_more_alike_the_others_are_the_less_is_far_out() -> None:
    rng = np.random.default_rng(3)
    limits = [
        limit_of(np.exp(spread * rng.standard_normal(300)).tolist()) for spread in (0.1, 0.6, 1.2)
    ]
    assert limits[0] == 3.0
    assert limits[0] < limits[1] < limits[2]


def test_of_a_few_ops_none_stands_out() -> None:
    assert limit_of([1.0] * 31) == math.inf
    assert limit_of([*[1.0] * 31, 0.0, math.inf]) == math.inf
    assert limit_of([1.0] * 32) == 3.0


def of_one_type(_: TensorRef) -> str:
    return "Add"


WORST = {TensorRef(f"op{n}", 0): 1.0 + n / 1000 for n in range(100)}


def test_what_stands_out_is_suspect() -> None:
    far, near = {TensorRef("far", 0): 4.0}, {TensorRef("near", 0): 1.2}
    found = standing_out({**WORST, **far, **near}, RootCauseOptions(), of_one_type)
    assert found == {TensorRef("far", 0): pytest.approx(8.0)}
    by_others = RootCauseOptions(suspect=3.9, guilty=4.5)
    assert standing_out({**WORST, **far}, by_others, of_one_type) == {
        TensorRef("far", 0): pytest.approx(5.2)
    }


def test_a_suspect_that_stands_out_is_guilty_if_others_of_its_type_do_not() -> None:
    ref = TensorRef("suspect", 0)
    found = standing_out({**WORST, ref: 7.0}, RootCauseOptions(), of_one_type)
    assert found == {ref: pytest.approx(14.0)}
    alone = standing_out({**WORST, ref: 7.0}, RootCauseOptions(), lambda each: each.op)
    assert alone == {ref: 10.0}
    assert standing_out({**WORST, ref: 10.5}, RootCauseOptions(), of_one_type) == {}


def test_where_two_are_as_far_neither_stands_out() -> None:
    worst = {TensorRef(f"op{n}", 0): 1.0 + n / 1000 for n in range(100)}
    worst |= {TensorRef("one", 0): 4.0, TensorRef("other", 0): 4.5}
    assert standing_out(worst, RootCauseOptions(), of_one_type) == {}


LAYERS = {TensorRef(f"layer{n}", 0): 1.0 + n / 100 for n in range(8)}
FAR = TensorRef("far", 0)


@pytest.mark.parametrize(
    ("worst", "far"),
    [
        ({**LAYERS, FAR: 4.5}, 15.0),
        ({**LAYERS, FAR: 2.9}, None),  # as healthy ones may
        (dict(zip(LAYERS, (0.2, 0.5, 0.7, 1, 1.5, 2, 3, 4), strict=True)) | {FAR: 4.5}, None),
        ({**dict(list(LAYERS.items())[:3]), FAR: 4.5}, None),  # too few to tell
        ({**LAYERS, FAR: 11.0}, None),  # guilty by itself
    ],
)
def test_a_product_that_errs_unlike_all_others_of_its_family_is_guilty(worst, far) -> None:
    """However few ops the run has."""
    found = unlike_their_family(worst, RootCauseOptions(), lambda _: Family.LINEAR)
    assert found == ({} if far is None else {FAR: pytest.approx(far)})
    assert not unlike_their_family(worst, RootCauseOptions(), lambda _: None)


def chain(path: Path) -> Path:
    """Eighty products in a row, each with a Tanh."""
    rng = np.random.default_rng(4)
    weights = [rng.normal(0, 0.15, (48, 48)).astype(np.float32) for _ in range(OPS)]
    nodes, last = [], "x"
    for n in range(OPS):
        nodes.append(helper.make_node("MatMul", [last, f"w{n}"], [f"p{n}"], name=f"product{n}"))
        nodes.append(helper.make_node("Tanh", [f"p{n}"], [f"t{n}"], name=f"tanh{n}"))
        last = f"t{n}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 48])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(each, f"w{n}") for n, each in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def test_an_error_of_four_floors_is_suspect_where_all_others_are_of_one(tmp_path: Path) -> None:
    golden, feed = chain(tmp_path / "chain.onnx"), tmp_path / "x.npy"
    np.save(feed, np.random.default_rng(5).standard_normal((64, 48)).astype(np.float32))
    dumped, device = tmp_path / "golden", tmp_path / "device"
    capture(CaptureRequest(golden, dumped, {"x": feed}))
    capture(CaptureRequest(golden, device, {"x": feed}, device=StandIn.FP16))
    request = CompareRequest(golden, dumped, next(device.glob("*.onnx")), device)
    data = compare(request)
    assert (data.origins, data.suspects) == ((), ())

    (path,) = device.glob("tanh79.0.*.npy")
    value = np.load(path)
    noise = np.random.default_rng(6).standard_normal(value.shape) * 2**-10
    wrong = (value * (1 + 0.8 * noise)).astype(np.float16)
    for each in (path, *device.glob("graph_output_cast0.0.*.npy")):
        np.save(each, wrong.astype(np.load(each).dtype))
    data = compare(request)
    assert data.run.verdict is not Verdict.DIVERGED
    (suspect,) = data.suspects
    assert suspect.op == "tanh79"
    assert 6.0 < suspect.suspicion <= 10.0
    told = {each.op: each for each in data.run.analysis.reckonings}[suspect.op]
    assert told.adjustments[-1].tolerance == "standing out"
    assert told.suspicion == pytest.approx(suspect.suspicion)
