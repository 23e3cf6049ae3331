"""Faults inside of loops: only what the loop gives is dumped, and it is to blame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.ask.origin_answers import origins
from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.causes.evidence import FaultEvidence, SampledTensors
from divergraph.rootcause.causes.words import wrong_turns
from graphstore.model import FindingKind, InputRef, Op, Tensor, Verdict
from graphstore.open_store import open_store

RNG = np.random.default_rng(5)
W = (RNG.standard_normal((16, 16)) / 4).astype(np.float32)
X = RNG.standard_normal((6, 16)).astype(np.float32)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(kind: str, inputs: str, outputs: str, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs.split()[0], **attrs)


def saved(path: Path, nodes, constants) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", FLOAT, [6, 16])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def body(nodes, state: str, constants):
    """A body of a loop that goes on in any case; *state* is what it is given and gives, if any."""
    given = [("i", INT64, []), ("go", BOOL, [])] + [("s", FLOAT, [6, 16])] * bool(state)
    made = [("on", BOOL, []), (state or "e", FLOAT, None)]
    return helper.make_graph(
        [*nodes, node("Identity", "go", "on")],
        "body",
        [helper.make_tensor_value_info(*each) for each in given],
        [helper.make_tensor_value_info(*each) for each in made],
        [numpy_helper.from_array(np.float32(each), name) for name, each in constants.items()],
    )


def recurrent(
    path: Path, *, quantised: bool, gain: float = 1.0, activation: str = "Tanh", more: str = "x"
) -> Path:
    """A loop that multiplies by a weight from outside; the device quantises that, and more."""
    constants = {"w": W, "v": W.T.copy(), "turns": np.int64(4), "true": np.bool_(True)}
    nodes, read = [], {"x": "x", "w": "w", "v": "v", "h": "h"}

    def through(name: str, step: float) -> None:
        if quantised:
            constants[f"{name}_step"] = np.float32(step)
            read[name] = f"{name}_d"
            nodes.append(node("QuantizeLinear", f"{name} {name}_step zero", f"{name}_q"))
            nodes.append(node("DequantizeLinear", f"{name}_q {name}_step zero", f"{name}_d"))

    constants["zero"] = np.int8(0)
    through("x", 3 / 127)
    through("w", 1 / 127)
    through("v", 1 / 127)
    inside = [
        node("MatMul", f"s {read['w']}", "m"),
        node("Add", f"m {read[more]}", "a") if more else node("Identity", "m", "a"),
        node(activation, "a", "t"),
        node("Mul", "t gain", "s2"),
    ]
    loop = body(inside, "s2", {"gain": gain})
    nodes.append(node("Loop", f"turns true {read['x']}", "h", body=loop))
    through("h", 1 / 127)
    nodes.append(node("MatMul", f"{read['h']} {read['v']}", "p"))
    nodes.append(node("Softmax", "p", "y"))
    return saved(path, nodes, constants)


def over_sequence(path: Path, *, gain: float = 1.0) -> Path:
    """A loop over the tensors of a sequence, which no dump holds."""
    inside = [
        node("SequenceAt", "parts i", "part"),
        node("MatMul", "part w", "m"),
        node("Mul", "m gain", "e"),
    ]
    loop = body(inside, "", {"gain": gain})
    nodes = [
        node("Tanh", "x", "t"),
        node("SplitToSequence", "t two", "parts", axis=0),
        node("SequenceLength", "parts", "many"),
        node("Loop", "many true", "h", body=loop),
        node("Reshape", "h flat", "r"),
        node("MatMul", "r w", "y"),
    ]
    constants = {"w": W, "two": np.int64(2), "true": np.bool_(True), "flat": np.array([6, 16])}
    return saved(path, nodes, constants)


@pytest.mark.parametrize(
    ("turns", "said"),
    [(slice(1, None), "of 3 turns of the loop it is wrong from 1 on"), (slice(1, 2), "wrong in 1")],
)
def test_the_turn_in_which_a_loop_goes_wrong_is_told(tmp_path, turns, said):
    golden = over_sequence(tmp_path / "golden.onnx")
    compared(golden, over_sequence(tmp_path / "device.onnx"))
    (dump,) = (tmp_path / "run").glob("h.0.*.npy")
    value = np.load(dump)
    value[turns] *= np.float32(1.05)
    np.save(dump, value)
    run = compare(
        CompareRequest(golden, tmp_path / "golden", tmp_path / "device.onnx", tmp_path / "run")
    )
    assert run.origins[0].op == "h"
    cause = next(each for each in run.findings if each.kind is FindingKind.CAUSE and each.op == "h")
    assert said in cause.sentence
    assert cause.evidence["first_turn"] == 1


@pytest.mark.parametrize(
    ("fault", "label", "said"),
    [
        ({"gain": 1.05}, "gain", "Mul s2 is 1.05 times what it should be"),
        ({"activation": "Sigmoid"}, "wrong_activation", "Tanh t is Sigmoid"),
        ({"more": ""}, "missing_op", "Add a hands on its input m: it was not computed"),
    ],
)
def test_the_op_of_a_body_that_fails_in_every_turn_is_named(tmp_path, fault, label, said):
    golden = recurrent(tmp_path / "golden.onnx", quantised=False)
    run = compared(golden, recurrent(tmp_path / "device.onnx", quantised=False, **fault))
    assert run.origins[0].op == "h"
    cause = next(each for each in run.findings if each.kind is FindingKind.CAUSE and each.op == "h")
    assert (cause.label, said in cause.sentence) == (label, True)
    assert "exactly" in cause.sentence


def step_by_step(path: Path, turns: tuple[int, int] = (0, -1), gain: float = 1.0) -> Path:
    """A loop of 8 turns that hands on its state and gives each; in some *turns*, from the first to
    the last, a product is *gain* times what it should be."""
    constants = {"w": W, "turns": np.int64(8), "true": np.bool_(True)}
    constants |= {"first": np.int64(turns[0]), "last": np.int64(turns[1])}
    inside = [
        node("MatMul", "s w", "right"),
        node("GreaterOrEqual", "i first", "begun"),
        node("LessOrEqual", "i last", "going"),
        node("And", "begun going", "now"),
        node("Where", "now gain one", "factor"),
        node("Mul", "right factor", "m"),
        node("Add", "m x", "a"),
        node("Tanh", "a", "t"),
        node("Identity", "t", "each"),
    ]
    if gain == 1.0:
        inside = [node("MatMul", "s w", "m"), *inside[6:]]
    loop = body(inside, "s", {"gain": gain, "one": 1.0})
    del loop.output[:]
    loop.output.extend(
        helper.make_tensor_value_info(*each)
        for each in [("on", BOOL, []), ("t", FLOAT, None), ("each", FLOAT, None)]
    )
    return saved(path, [node("Loop", "turns true x", "h y", body=loop)], constants)


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ((3, 3), "in turn 3 alone"),
        ((2, 7), "from turn 2 on"),
        ((0, 0), "in turn 0 alone"),
        ((0, 7), "in every turn"),
    ],
)
def test_the_op_and_the_turns_in_which_it_fails_are_told(tmp_path, turns, said):
    golden = step_by_step(tmp_path / "golden.onnx")
    faulty = step_by_step(tmp_path / "faulty.onnx", turns, 1.4)
    feed = tmp_path / "x.npy"
    np.save(feed, X)
    for model, name in ((golden, "golden"), (faulty, "run")):
        capture(CaptureRequest(model, tmp_path / name, {"x": feed}))
    run = compare(CompareRequest(golden, tmp_path / "golden", golden, tmp_path / "run"))
    sentence = f"if {said} MatMul m is 1.4 times"
    causes = {each.port: each for each in run.findings if each.kind is FindingKind.CAUSE}
    assert f"exactly what comes out {sentence}" in causes[1].sentence
    # What the last turn leaves shows single turns and all of them, but not from which one on.
    assert (sentence in causes[0].sentence) == (said != "from turn 2 on")
    with open_store(str(tmp_path / "store")) as store:
        store.save_run(run)
        (answer,) = origins(store, run.run.name).origins
        assert sentence in answer.findings[0].sentence
    assert sentence in str(run.origins[0].cause)


def compared(golden: Path, device: Path, kind: StandIn = StandIn.FP32):
    feed = golden.parent / "x.npy"
    np.save(feed, X)
    capture(CaptureRequest(golden, golden.parent / "golden", {"x": feed}))
    capture(CaptureRequest(device, golden.parent / "run", {"x": feed}, device=kind))
    return compare(CompareRequest(golden, golden.parent / "golden", device, golden.parent / "run"))


@pytest.mark.parametrize("gain", [1.0, 1.02], ids=["healthy", "gain of 2 %"])
def test_a_loop_that_shows_it_does_not_quantise_is_held_to_more_than_eight_bits(tmp_path, gain):
    golden = recurrent(tmp_path / "golden.onnx", quantised=False)
    device = recurrent(tmp_path / "device.onnx", quantised=True, gain=gain)
    run = compared(golden, device)
    assert [each.op for each in (*run.origins, *run.suspects)] == ["h"] * (gain != 1.0)
    assert (run.run.verdict is Verdict.DIVERGED) == (gain != 1.0)


@pytest.mark.parametrize("gain", [1.0, 1.01], ids=["healthy", "gain of 1 %"])
def test_ops_around_a_sequence_are_imitated_together(tmp_path, gain):
    golden = over_sequence(tmp_path / "golden.onnx")
    device = over_sequence(tmp_path / "device.onnx", gain=gain)
    run = compared(golden, device, StandIn.FP16)
    assert [each.op for each in (*run.origins, *run.suspects)] == ["h"] * (gain != 1.0)


@pytest.mark.parametrize(("stands_for", "told"), [(None, None), (1, ([2, 3], 4)), (0, None)])
def test_turns_are_those_of_the_output_that_the_devices_stands_for(stands_for, told):
    """A device may number the outputs of its loops otherwise."""
    loop = Op("l", "l", "Loop", (InputRef("n"), InputRef("c"), InputRef("s")), (Tensor("h"),))
    right = np.ones((4, 3), np.float32)
    device = right.copy()
    device[2:] = 2.0
    case = FaultEvidence("l", 0, device, right, 1e-7, ops=(loop,), golden_port=stands_for)
    assert wrong_turns(SampledTensors(case)) == told
