"""Reductions of gradients that no dump has are inferred from what they leave behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphstore.model import TensorIO
from importers.msprobe.calls import INFERRED
from importers.msprobe.job_index import job_graph, scan_job
from importers.msprobe.job_names import RANKS

RANKS_OF_JOB = 4
DRAW = np.random.default_rng(5)
WEIGHTS = {name: DRAW.standard_normal((8, 6)).astype(np.float32) for name in ("up", "down")}
GRADIENTS = {
    name: DRAW.standard_normal((RANKS_OF_JOB, 8, 6)).astype(np.float32) for name in WEIGHTS
}
MEANS = {name: each.mean(axis=0) for name, each in GRADIENTS.items()}


def leaf(folder: Path, name: str, value: np.ndarray, *, with_values: bool) -> dict:
    if with_values:
        np.save(folder / "dump_tensor_data" / f"{name}.npy", value)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(value.shape),
        "Max": float(value.max()),
        "Min": float(value.min()),
        "Mean": float(value.mean()),
        "Norm": float(np.linalg.norm(value)),
        **({"data_name": f"{name}.npy"} if with_values else {}),
    }


def written(step: Path, updates: dict[str, list[np.ndarray]], *, with_values: bool = True) -> Path:
    """A step of a wrapped model with two layers; *updates* are the gradients that the optimizer
    reads of each layer, by rank."""
    for rank in range(RANKS_OF_JOB):
        folder = step / f"rank{rank}"
        (folder / "dump_tensor_data").mkdir(parents=True)

        def tensor(name: str, value: np.ndarray, folder: Path = folder) -> dict:
            return leaf(folder, name, value, with_values=with_values)

        calls = {}
        for layer, weight in WEIGHTS.items():
            name = f"Module.module.{layer}.Linear.forward.0"
            calls[name] = {
                "input_args": [],
                "parameters": {"weight": tensor(f"{name}.parameters.weight", weight)},
                "output": [],
            }
        for layer in reversed(WEIGHTS):
            name = f"Module.module.{layer}.Linear.parameters_grad.0"
            calls[name] = {"weight": [tensor(f"{name}.weight", GRADIENTS[layer][rank])]}
        for number, (layer, weight) in enumerate(WEIGHTS.items()):
            name = f"Tensor.add_.{number}.forward"
            read = tensor(f"{name}.input.1", updates[layer][rank])
            calls[name] = {
                "input_args": [tensor(f"{name}.input.0", weight), read],
                "output": [tensor(f"{name}.output.0", weight)],
            }
        content = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": calls}
        (folder / "dump.json").write_text(json.dumps(content))
    return step


def everywhere(values: dict[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    return {name: [value] * RANKS_OF_JOB for name, value in values.items()}


def inferred(step: Path) -> dict[str, str]:
    """The calls that were inferred, with their operation."""
    ops = [op for op in job_graph(step).ops if INFERRED in op.attrs]
    return {op.name: str(op.attrs["input.op"]) for op in ops}


@pytest.mark.parametrize("with_values", [True, False])
@pytest.mark.parametrize(("times", "operation"), [(1, "RedOpType.AVG"), (4, "RedOpType.SUM")])
def test_what_the_optimizer_reads_is_a_reduction_of_gradients(
    with_values, times, operation, tmp_path
):
    updates = everywhere({name: times * mean for name, mean in MEANS.items()})
    assert inferred(written(tmp_path, updates, with_values=with_values)) == {
        "ranks0-3/Distributed.up.weight.all_reduce.0.forward": operation,
        "ranks0-3/Distributed.down.weight.all_reduce.0.forward": operation,
    }


def test_it_joins_the_ranks_and_has_their_tensors(tmp_path):
    step = written(tmp_path, everywhere(MEANS))
    graph = job_graph(step)
    op = next(op for op in graph.ops if INFERRED in op.attrs)
    assert op.attrs[RANKS] == (0, 1, 2, 3)
    assert [ref.op for ref in op.takes] == [
        f"rank{rank}/Module.module.up.Linear.parameters_grad.0" for rank in range(RANKS_OF_JOB)
    ]
    tensors = scan_job(step, graph).tensors
    files = [tensors[op.id, io, 2].path.name for io in (TensorIO.INPUT, TensorIO.OUTPUT)]
    assert files == [
        "Module.module.up.Linear.parameters_grad.0.weight.npy",
        "Tensor.add_.0.forward.input.1.npy",
    ]
    assert any("2 reductions of gradients were inferred" in said for said in graph.warnings)


def test_a_wrong_one_is_seen_as_one_too(tmp_path):
    without = {name: each[1:].sum(axis=0) / RANKS_OF_JOB for name, each in GRADIENTS.items()}
    assert len(inferred(written(tmp_path, everywhere(without)))) == 2


def test_each_rank_may_get_its_share(tmp_path):
    shares = {name: np.split(mean, RANKS_OF_JOB) for name, mean in MEANS.items()}
    assert inferred(written(tmp_path, shares)) == {
        "ranks0-3/Distributed.up.weight.reduce_scatter_tensor.0.forward": "RedOpType.AVG",
        "ranks0-3/Distributed.down.weight.reduce_scatter_tensor.0.forward": "RedOpType.AVG",
    }


@pytest.mark.parametrize("with_values", [True, False])
def test_what_is_of_no_gradient_is_none(with_values, tmp_path):
    own = {name: list(each) for name, each in GRADIENTS.items()}
    other = everywhere({name: DRAW.standard_normal((8, 6)) for name in WEIGHTS})
    for number, updates in enumerate((own, other)):
        step = written(tmp_path / str(number), updates, with_values=with_values)
        assert inferred(step) == {}
