"""Whatever is asked about a run, no command contradicts its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)
WEIGHTS = {
    "w1": RANDOM.standard_normal((6, 3, 3, 3)).astype(np.float32),
    "b1": RANDOM.standard_normal(6).astype(np.float32),
    "w2": RANDOM.standard_normal((4, 6, 3, 3)).astype(np.float32),
}
CASES = {
    "healthy": ("within_rounding", "right"),
    "an op": ("diverged", "damaged"),
    "other input": ("inputs_differ", "damaged"),
    "a wiped-out channel": ("diverged", "damaged"),
}


def model(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Two convolutions with a Relu between them; every tensor is an output."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="c1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], name="r1"),
        helper.make_node("Conv", ["r1", "w2"], ["y"], name="y", pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in ("y", "c1", "r1")
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dump(folder: Path, weights: dict[str, np.ndarray], x: np.ndarray, *, half: bool) -> None:
    """What ONNX Runtime gives, op by op, rounded to float16 behind each op if *half*."""
    folder.mkdir(parents=True)
    rounded = (lambda v: v.astype(np.float16).astype(np.float32)) if half else (lambda v: v)
    values = {"x": x}
    whole = model(weights)
    for node in whole.graph.node:
        names = [each for each in node.input if each in values]
        alone = helper.make_model(
            helper.make_graph(
                [node],
                "one",
                [helper.make_tensor_value_info(n, 1, values[n].shape) for n in names],
                [helper.make_tensor_value_info(node.output[0], 1, None)],
                [
                    numpy_helper.from_array(rounded(weights[n]), n)
                    for n in node.input
                    if n in weights
                ],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        )
        session = onnxruntime.InferenceSession(alone.SerializeToString())
        (made,) = session.run(None, {n: rounded(values[n]) for n in names})
        values[node.output[0]] = rounded(made)
    for name, value in values.items():
        np.save(folder / f"{name}.npy", value)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sides")
    onnx.save(model(WEIGHTS), str(folder / "net.onnx"))
    dump(folder / "golden", WEIGHTS, X, half=False)
    dump(folder / "healthy", WEIGHTS, X, half=True)
    dump(folder / "an op", {**WEIGHTS, "b1": WEIGHTS["b1"] * 0}, X, half=True)
    dump(folder / "other input", WEIGHTS, X[:, ::-1].copy(), half=True)
    wiped = WEIGHTS["w2"].copy()
    wiped[1] = 0
    dump(folder / "a wiped-out channel", {**WEIGHTS, "w2": wiped}, X, half=True)
    return folder


@pytest.mark.parametrize("case", CASES)
def test_no_command_contradicts_the_verdict(
    divergraph: Callable[..., object], sides: Path, tmp_path: Path, case: str
) -> None:
    store, part = tmp_path / "store", tmp_path / "part"
    made = divergraph(
        "compare", "--golden", sides / "net.onnx", "--golden-dump", sides / "golden",
        "--device", sides / "net.onnx", "--device-dump", sides / case,
        "--store", store, "--run", "run", "--json",
    )  # fmt: skip
    verdict, result = CASES[case]
    assert made.json["verdict"] in ({verdict, "clean"} if case == "healthy" else {verdict})
    assert made.json["result"]["state"] == result
    ops = [each["op"] for each in made.json["origins"]]
    assert made.json["blame"]["ops"] == ops

    def asked(*command: object) -> object:
        return divergraph(*command, "--store", store, "--json")

    origins = asked("origins", "run")
    assert {name: origins.json[name] for name in ("verdict", "result", "blame")} == {
        name: made.json[name] for name in ("verdict", "result", "blame")
    }
    assert [each["op"] for each in origins.json["origins"]] == ops
    guilty = [
        each["op"]
        for each in asked("roles", "run").json["ops"]
        if each["split"]["guilt"] == "guilty"
    ]
    assert sorted(guilty) == sorted(ops)
    advice = asked("advise", "run")
    named = {each["op"] for each in advice.json["findings"] if each["label"] == "problem_node"}
    assert named <= set(ops)
    assert advice.code == (0 if made.code == 0 else 1)
    smallest = asked("minimize", "run", "-o", part)
    assert (smallest.code == 1) == bool(ops)
    assert smallest.code == made.code or not ops
    blamed = asked("blame", "run")
    if made.json["blame"]["on"] == "inputs":
        assert (blamed.json["keep"], smallest.code) == ([], 2)
    for op in ops:
        assert op in {each["op"] for each in blamed.json["shares"]}
        assert asked("trace", "run", op).code == 0
