"""Whatever is asked about a run, no command contradicts its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.thorough

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


def agreeing(divergraph: Callable[..., object], store: Path, *sides: object) -> dict:
    """What ``compare`` says of two sides, after every command that judges the run was asked and
    none contradicted it."""
    compared = divergraph("compare", *sides, "--store", store, "--run", "run", "--json")
    verdict = compared.json
    answers = {name: verdict[name] for name in ("verdict", "result", "blame")}
    ops = [origin["op"] for origin in verdict["origins"]]
    assert verdict["blame"]["ops"] == ops[: len(verdict["blame"]["ops"])]
    assert bool(ops) == (verdict["blame"]["on"] == "ops")
    fine = verdict["verdict"] in ("clean", "within_rounding")
    assert fine == (compared.code == 0)
    undecided = verdict["verdict"] == "undecided"  # inner tensors may be off beside a right result
    assert fine or verdict["result"]["state"] != "right" or ops or undecided

    def asked(*command: object) -> object:
        return divergraph(*command, "--store", store, "--json")

    origins = asked("origins", "run")
    assert {name: origins.json[name] for name in answers} == answers
    assert [origin["op"] for origin in origins.json["origins"]] == ops
    if verdict["method"] == "root_cause":
        roles = asked("roles", "run")
        guilty = {op["op"] for op in roles.json["ops"] if op["split"]["guilt"] == "guilty"}
        assert set(ops) <= guilty
        assert bool(guilty) == bool(ops)
    advice = asked("advise", "run")
    problems = [one["op"] for one in advice.json["findings"] if one["label"] == "problem_node"]
    assert set(problems) <= set(ops)
    assert advice.code == (0 if compared.code == 0 else 1)
    smallest = asked("minimize", "run", "-o", store / "part")
    assert smallest.code != 1 or ops
    assert smallest.code != 0 or not ops
    blamed = asked("blame", "run")
    if verdict["blame"]["on"] == "inputs":
        assert (blamed.json["keep"], smallest.code) == ([], 2)
    for op in ops[:3]:
        if blamed.code == 0:
            # A shape that fits nowhere in the golden model has no share, which is said.
            no_share = " ".join(blamed.json["warnings"])
            assert op in {share["op"] for share in blamed.json["shares"]} or op in no_share
        assert asked("trace", "run", op).code == 0
    return verdict


@pytest.mark.parametrize("case", CASES)
def test_no_command_contradicts_the_verdict(
    divergraph: Callable[..., object], sides: Path, tmp_path: Path, case: str
) -> None:
    verdict = agreeing(
        divergraph,
        tmp_path / "store",
        *("--golden", sides / "net.onnx", "--golden-dump", sides / "golden"),
        *("--device", sides / "net.onnx", "--device-dump", sides / case),
    )
    right, result = CASES[case]
    assert verdict["verdict"] in ({right, "clean"} if case == "healthy" else {right})
    assert verdict["result"]["state"] == result


ONNX = ("--golden", "model.onnx", "--golden-dump", "golden", "--device", "model.onnx")
PUBLIC = {
    "01-yolo-shared-scale": ((*ONNX, "--device-dump", "device"), "diverged"),
    "02-reduce-axes-ignored": (
        (*ONNX, "--device-dump", "device", "--undumped-outputs", "undumped"),
        "diverged",
    ),
    "03-pool-ceil-mode": ((*ONNX, "--device-dump", "device"), "diverged"),
    "04-input-channels-swapped": ((*ONNX, "--device-dump", "device"), "inputs_differ"),
    "06-input-nhwc": ((*ONNX, "--device-dump", "device"), "inputs_differ"),
    "08-raw-result-folder": ((*ONNX, "--device-dump", "out/Result_0"), "clean"),
    "10-concat-branch-hw-swapped": ((*ONNX, "--device-dump", "device"), "diverged"),
    "14-int8-head-all-zero": (
        (*ONNX[:4], "--device", "dev/model.int8.onnx", "--device-dump", "dev"),
        "diverged",
    ),
    "07-tflite-float-int8": (
        (
            *("--golden", "float.tflite", "--golden-dump", "float"),
            *("--device", "int8.tflite", "--device-dump", "int8"),
        ),
        "undecided",  # every weight is another: no layer need agree
    ),
}


@pytest.mark.shared
@pytest.mark.parametrize("case", PUBLIC)
def test_none_does_of_what_others_reported(
    divergraph: Callable[..., object], shared_data: Path, tmp_path: Path, case: str
) -> None:
    folder = shared_data / "public_cases" / case
    options, right = PUBLIC[case]
    sides = [each if each.startswith("--") else folder / each for each in options]
    verdict = agreeing(divergraph, tmp_path / "store", *sides)
    assert verdict["verdict"] == right


@pytest.mark.shared
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("case", "model"), [("small_norm", "llama.onnx"), ("router_indices", "moe.onnx")]
)
def test_none_does_of_a_fault_that_hides(
    divergraph: Callable[..., object], shared_data: Path, tmp_path: Path, case: str, model: str
) -> None:
    folder = shared_data / "verdicts" / case
    verdict = agreeing(
        divergraph,
        tmp_path / "store",
        *("--golden", folder / model, "--golden-dump", folder / "golden"),
        *("--device", folder / model, "--device-dump", folder / "device"),
    )
    assert verdict["verdict"] == "diverged"
