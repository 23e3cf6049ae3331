"""``capture --torch``: a model or a function of a script, run and recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divergraph as dg
from divergraph.api.capture import capture_torch
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Verdict

pytestmark = pytest.mark.torch

SCRIPT = """
import torch
from torch import nn
from beside import SIZE

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.router = nn.Embedding(20, SIZE), nn.Linear(SIZE, 4)
        self.up = nn.Parameter(torch.randn(4, SIZE, 16))

    def forward(self, names, scale):
        x = self.words(names)
        best, places = self.router(x).softmax(-1).topk(2, -1)
        made = nn.functional.silu(torch.einsum("bsd,edf->besf", x, self.up))
        gates = torch.zeros(*names.shape, 4).to(x).scatter(-1, places, best)
        return (made * gates.permute(0, 2, 1)[..., None]).sum(1) * scale

module = Experts()
make = Experts

def attend(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

def attend_wrongly(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v)

def fails(x):
    return x + torch.ones(7)

value = 3
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("SIZE = 8\n")
    (tmp_path / "net.py").write_text(SCRIPT)
    draw = np.random.default_rng(1)
    np.savez(tmp_path / "moe.npz", names=draw.integers(0, 20, (2, 5)), scale=np.float32(0.5))
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", draw.standard_normal((2, 3, 4, 8)).astype(np.float32))
    return f"{tmp_path}/net.py"


def calls(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "step0/rank0/dump.json").read_text())["data"]


@pytest.mark.parametrize("name", ["module", "make"])
def test_a_model_is_called_with_the_inputs_of_a_file(name, script, tmp_path):
    result = capture_torch(f"{script}:{name}", tmp_path / "out", tmp_path / "moe.npz")
    assert result.executor.startswith("torch ")
    assert {"Functional.silu.0.forward", "Torch.einsum.0.forward"} <= calls(tmp_path / "out").keys()


def test_the_same_model_in_bfloat16_is_healthy(script, tmp_path):
    golden, device = tmp_path / "golden", tmp_path / "device"
    capture_torch(f"{script}:make", golden, tmp_path / "moe.npz")
    capture_torch(f"{script}:make", device, tmp_path / "moe.npz", dtype="bf16")
    assert calls(device)["Functional.silu.0.forward"]["output"][0]["dtype"] == "torch.bfloat16"
    verdict = dg.compare(golden, None, device, None).verdict
    assert verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)


def test_a_function_is_all_that_runs(script, tmp_path):
    inputs = {at: tmp_path / f"{name}.npy" for at, name in zip("012", "qkv", strict=True)}
    golden, device = tmp_path / "golden", tmp_path / "device"
    capture_torch(f"{script}:attend", golden, inputs)
    capture_torch(f"{script}:attend_wrongly", device, inputs)
    (origin,) = dg.compare(golden, None, device, None).data.origins
    assert origin.op.endswith("scaled_dot_product_attention.0.forward")
    assert "is_causal" in origin.cause


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("nothing", {}, InputError, "no 'nothing'"),
        ("value", {}, InputError, "neither a torch"),
        ("make", {}, InputError, "gives a model"),
        ("fails", {"inputs": "q.npy"}, ExecutionError, "raises RuntimeError"),
        ("module", {"inputs": "no.npy"}, InputError, "cannot read this input"),
        ("module", {"inputs": "net.py"}, InputError, "no tensors of a model"),
        ("module", {"device": "int8"}, InputError, "runs on no int8"),
    ],
)
def test_what_cannot_be_run_is_said_and_leaves_nothing(
    name, options, error, message, script, tmp_path
):
    if "inputs" in options:
        options = options | {"inputs": tmp_path / options["inputs"]}
    with pytest.raises(error, match=message):
        capture_torch(f"{script}:{name}", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_what_is_there_is_written_over_only_if_it_is_a_capture(script, tmp_path):
    def capture(output: Path, **options: Any) -> None:
        capture_torch(f"{script}:make", output, tmp_path / "moe.npz", **options)

    capture(tmp_path / "out")
    with pytest.raises(InputError, match="something here"):
        capture(tmp_path / "out")
    capture(tmp_path / "out", replace=True)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["step0"]
    with pytest.raises(InputError, match="something here"):
        capture(tmp_path, replace=True)
