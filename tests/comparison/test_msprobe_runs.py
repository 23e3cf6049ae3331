"""Dumps of msprobe, whose edges are guessed from statistics: where values are no numbers, or other,
there are none to guess by, and the dumped inputs tell what came in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import divergraph as dg
from graphstore.model import Level, TensorIO, Verdict

LAYER = "Module.fc.Linear"
CALLS = [f"Functional.{name}.0.forward" for name in ("linear", "gelu", "relu", "softmax")]
INFINITE = {"Max": float("inf"), "Min": float("-inf"), "Mean": float("nan"), "Norm": float("inf")}


def told(scale: float) -> dict[str, object]:
    said = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 16]}
    return said | {"Max": 2.0 * scale, "Min": -1.5 * scale, "Mean": 0.2 * scale, "Norm": 9 * scale}


def dump(folder: Path, first: int, bad: dict[str, object] | None) -> Path:
    """Four calls in a row and a layer's gradient; from call *first* on all is as *bad* says."""
    folder.mkdir()
    made = [told(1.0 + 0.25 * at) for at in range(len(CALLS) + 1)]
    spoilt = [one | bad if bad and at > first else one for at, one in enumerate(made)]
    data: dict[str, object] = {
        call: {"input_args": [spoilt[at]], "input_kwargs": {}, "output": [spoilt[at + 1]]}
        for at, call in enumerate(CALLS)
    }
    data[f"{LAYER}.parameters_grad.0"] = {"weight": [told(7.0) | (bad or {})]}
    content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}
    (folder / "dump.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("bad", [INFINITE, {"Max": 77.0, "Min": 70.0, "Mean": 75.0, "Norm": 850.0}])
def test_an_op_that_was_fed_the_error_is_no_origin(tmp_path, bad):
    device, golden = dump(tmp_path / "npu", 1, bad), dump(tmp_path / "gpu", 1, None)
    run = dg.compare(golden, golden, device, device)
    assert [origin.op for origin in run.data.origins] == [CALLS[1]]
    inputs = {item.op: item for item in run.data.comparisons if item.io is TensorIO.INPUT}
    assert inputs[CALLS[2]].compared
    assert [op for op, item in inputs.items() if item.over] == CALLS[2:]


def test_an_input_is_held_against_the_same_input_of_the_golden_call(tmp_path):
    made = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = {"linear.output": made, "matmul.input": made.T.copy(), "matmul.output": made.T @ made}
    for side in ("npu", "gpu"):
        folder = tmp_path / side
        (folder / "dump_tensor_data").mkdir(parents=True)
        said = {}
        for name, values in tensors.items():
            np.save(folder / "dump_tensor_data" / f"{name}.npy", values + (side == "gpu") * 1e-6)
            said[name] = told(1.0) | {"shape": list(values.shape), "data_name": f"{name}.npy"}
        data = {
            "Functional.linear.0.forward": {"input_args": [], "output": [said["linear.output"]]},
            "Torch.matmul.0.forward": {
                "input_args": [said["matmul.input"]],
                "output": [said["matmul.output"]],
            },
        }
        content = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": data}
        (folder / "dump.json").write_text(json.dumps(content))
    run = dg.compare(*[tmp_path / side for side in ("gpu", "gpu", "npu", "npu")])
    (found,) = (item for item in run.data.comparisons if item.io is TensorIO.INPUT)
    assert found.golden is not None
    assert found.golden.op == "Functional.linear.0.forward"
    assert found.level is Level.PASS


def test_of_values_that_are_no_numbers_the_first_maker_is_named(tmp_path):
    device = dump(tmp_path / "npu", 1, INFINITE)
    report = dg.check_consistency(device, device)
    (found,) = report.findings
    assert (found.op, found.io, found.label) == (CALLS[1], TensorIO.OUTPUT, "infinity_appears")
    assert "at least 1 of 128 values" in found.sentence
    assert report.inputs == 0


@pytest.mark.parametrize(("noise", "origins"), [(1e-9, []), (1e-6, [f"{LAYER}.parameters_grad.0"])])
def test_a_gradient_that_cancels_is_no_origin_for_its_rounding(tmp_path, noise, origins):
    weight = {"Max": 0.05, "Min": -0.05, "Mean": 0.0, "Norm": 0.2}
    for side, size in (("npu", noise), ("gpu", noise / 100)):
        bias = {"Max": size, "Min": -size, "Mean": 0.0, "Norm": 3 * size}
        data = {
            f"{LAYER}.parameters_grad.0": {"bias": [told(1) | bias], "weight": [told(1) | weight]}
        }
        content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}
        (tmp_path / side).mkdir()
        (tmp_path / side / "dump.json").write_text(json.dumps(content))
    run = dg.compare(*[tmp_path / side for side in ("gpu", "gpu", "npu", "npu")])
    assert [origin.op for origin in run.data.origins] == origins


@pytest.mark.parametrize(("halved", "origins"), [(False, []), (True, ["Tensor.sqrt.0.forward"])])
def test_the_root_of_values_that_float16_hardly_holds_is_no_origin(tmp_path, halved, origins):
    """An optimizer's second moments below the least normal number of float16: statistics of them
    show a few percent, the root of them, which float16 holds well, more than that."""
    gradient = np.random.default_rng(3).normal(0.0, 0.01, 32).astype(np.float32)
    moments = 1e-3 * gradient * gradient * (1e3 if halved else 1.0)
    for side, dtype in (("npu", np.float16), ("gpu", np.float32)):
        read = moments.astype(dtype)
        made = np.sqrt(read) * dtype(0.5 if halved and side == "npu" else 1.0)
        tensors = [
            {
                "type": "torch.Tensor",
                "dtype": f"torch.{read.dtype}",
                "shape": [32],
                "Max": float(wide.max()),
                "Min": float(wide.min()),
                "Mean": float(wide.mean()),
                "Norm": float(np.linalg.norm(wide)),
            }
            for wide in (read.astype(np.float64), made.astype(np.float64))
        ]
        data = {"Tensor.sqrt.0.forward": {"input_args": tensors[:1], "output": tensors[1:]}}
        content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": data}
        (tmp_path / side).mkdir()
        (tmp_path / side / "dump.json").write_text(json.dumps(content))
    run = dg.compare(*[tmp_path / side for side in ("gpu", "gpu", "npu", "npu")])
    assert any(item.over for item in run.data.comparisons)
    assert [origin.op for origin in run.data.origins] == origins


def recorded(folder: Path, dtype: str, calls: dict[str, dict[str, np.ndarray]]) -> Path:
    """Calls with their tensors, by the places that msprobe has for them."""
    (folder / "dump_tensor_data").mkdir(parents=True)
    data: dict[str, dict[str, list[object]]] = {}
    for call, tensors in calls.items():
        for place, values in tensors.items():
            name = f"{call}.{place}.npy"
            np.save(folder / "dump_tensor_data" / name, values)
            said = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": [*values.shape]}
            ends = {"Max": values.max(), "Min": values.min(), "Mean": values.mean()}
            ends["Norm"] = np.linalg.norm(values.astype(np.float64))
            said |= {key: float(value) for key, value in ends.items()} | {"data_name": name}
            data.setdefault(call, {}).setdefault(place.partition(".")[0], []).append(said)
    content = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": data}
    (folder / "dump.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("factor", "origins"), [(1, []), (-1, ["Module.m.Mixer.parameters_grad.0"])]
)
def test_a_gradient_of_a_few_steps_of_float16_is_no_origin(tmp_path, factor, origins):
    right = np.random.default_rng(3).normal(0.0, 2e-7, 64).astype(np.float32)
    name = "Module.m.Mixer.parameters_grad.0"
    calls = [{name: {"weight.0": each}} for each in (right, factor * right.astype(np.float16))]
    golden = recorded(tmp_path / "gpu", "float32", calls[0])
    device = recorded(tmp_path / "npu", "float16", calls[1])
    run = dg.compare(golden, golden, device, device)
    assert [origin.op for origin in run.data.origins] == origins


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_gradient_of_a_shared_weight_follows_from_all_that_share_it(tmp_path, is_shared):
    """A head that has the embedding's weight: its gradient is off, as the embedding's is."""
    draw = np.random.default_rng(5)
    words, rows, shares = (draw.normal(size=shape) for shape in ((6, 8), (6, 10), (10, 8)))
    error = 0.1 * draw.normal(size=(6, 8))

    def step(error: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        arrived, made = words + error, shares + 0.1 * draw.normal(size=(10, 8)) * bool(error.any())
        of_words = made if is_shared else -2.0 * made
        calls = {
            "Module.head.Linear.backward.0": {"input.0": rows, "output.0": rows @ shares},
            "Module.head.Linear.parameters_grad.0": {"weight.0": made},
            "Module.words.Embedding.backward.0": {"input.0": arrived},
            "Module.words.Embedding.parameters_grad.0": {"weight.0": of_words},
        }
        return {
            call: {place: values.astype(np.float32) for place, values in tensors.items()}
            for call, tensors in calls.items()
        }

    golden = recorded(tmp_path / "gpu", "float32", step(np.zeros((6, 8))))
    device = recorded(tmp_path / "npu", "float32", step(error))
    run = dg.compare(golden, golden, device, device)
    named = [origin.op for origin in run.data.origins]
    assert ("Module.head.Linear.parameters_grad.0" in named) is not is_shared


@pytest.mark.parametrize(
    ("left", "verdict"), [(0, Verdict.WITHIN_ROUNDING), (2, Verdict.INPUTS_DIFFER)]
)
def test_memory_without_a_value_that_is_written_over_is_no_input(tmp_path, left, verdict):
    """``made = torch.empty(8); made[places] = values``, of all places or of all but two."""
    values = np.arange(8)
    sides = {"gpu": np.full(8, 1 << 60), "npu": np.zeros(8, np.int64)}
    for side, memory in sides.items():
        made = np.where(values < left, memory, values)
        tensors = {"input_args.0": memory, "input_args.1": values[left:], "output.0": made}
        recorded(tmp_path / side, "int64", {"Tensor.__setitem__.0.forward": tensors})
    run = dg.compare(*[tmp_path / side for side in ("gpu", "gpu", "npu", "npu")])
    assert run.verdict is verdict
