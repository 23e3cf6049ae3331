"""What PyTorch does in a block, recorded and compared with another recording of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import divergraph as dg
from divergraph.torch import recorded
from graphstore.errors import InputError
from graphstore.model import Verdict
from importers.msprobe.importer import MsprobeImporter

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra divergraph[torch]")
pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    """Convolution, normalisation, attention and a head: what a step of most models has."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.LayerNorm(8, eps=1e-5)
        self.pair, self.head = torch.nn.Linear(8, 24), torch.nn.Linear(8, 5)

    def forward(self, image: Any) -> Any:
        words = self.norm(self.stem(image).flatten(2).mT)
        q, k, v = self.pair(words).chunk(3, -1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(torch.nn.functional.gelu(words + mixed)[:, 1:].mean(1))


def train(
    folder: Path,
    dtype: Any = torch.float32,
    change: Callable[[Net], Any] = lambda _: None,
    steps: int = 1,
) -> Path:
    """*folder* with recorded steps of the same net on the same images."""
    torch.manual_seed(7)
    model = Net().to(dtype)
    changed = change(model)
    run = model if changed is None else changed
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    images, wanted = torch.randn(4, 3, 6, 6).to(dtype), torch.tensor([0, 1, 2, 3])
    with recorded(folder, model=run) as record:
        for at in range(steps):
            if at:
                record.step()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(run(images).float(), wanted).backward()
            optimizer.step()
    return folder


def entries(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}/rank0/dump.json").read_text())["data"]


def value(folder: Path, leaf: Any) -> Any:
    return np.load(folder / "step0/rank0/dump_tensor_data" / leaf["data_name"])


def test_a_healthy_run_in_bfloat16_explains_itself(tmp_path):
    golden, device = train(tmp_path / "golden"), train(tmp_path / "bf16", torch.bfloat16)
    run = dg.compare(golden, golden, device, device)
    assert run.verdict in (Verdict.CLEAN, Verdict.WITHIN_ROUNDING)
    assert not run.data.origins


def other_eps(model: Net) -> None:
    model.norm.eps = 1e-2


def lost_bias(model: Net) -> None:
    model.pair.bias = None


def other_weight(model: Net) -> None:
    with torch.no_grad():
        model.head.weight[2] *= 1.5


@pytest.mark.parametrize(
    ("fault", "call", "cause"),
    [
        (other_eps, "Functional.layer_norm.0.forward", "0.01, golden 1e-05"),
        (lost_bias, "Functional.linear.0.forward", "argument 2 is none, golden a tensor"),
        (other_weight, "Functional.linear.1.forward", "weight differs"),
    ],
)
def test_the_call_at_fault_is_named_with_its_cause(fault, call, cause, tmp_path):
    golden = train(tmp_path / "golden")
    device = train(tmp_path / "device", torch.bfloat16, fault)
    run = dg.compare(golden, golden, device, device)
    first, *others = run.data.origins
    assert first.op.endswith(call)
    assert cause in first.cause
    assert not others


@pytest.mark.parametrize("call", ["layer_norm.0.forward", "gelu.0.backward"])
def test_a_part_calls_pytorch_by_itself(call, tmp_path):
    golden = train(tmp_path / "golden")
    device = train(tmp_path / "device", torch.bfloat16, other_eps)
    run = dg.compare(golden, golden, device, device)
    (op,) = (op.id for op in run.data.golden.ops if op.name == f"Functional.{call}")
    run.submodel([op], [op], tmp_path / "part")
    (folder,) = (tmp_path / "part").iterdir()
    for options in ([], ["--device", "--dtype", "bfloat16"]):
        command = [sys.executable, folder / "part.py", *options]
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        error = float(made.splitlines()[0].rpartition(" ")[2])
        # Golden's eps is written into the script: the device's output is none of it.
        assert error < 1e-6 if not options or "gelu" in call else error > 1e-3


def test_gradients_are_the_share_of_their_call(tmp_path):
    """A tensor that two calls read: each call's gradient is its own, not their sum."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with recorded(tmp_path):
        (x.sin() + 2 * x.pow(2)).sum().backward()
    data = entries(tmp_path)
    for call, slope in (("Tensor.sin.0", np.cos([1, 2, 3])), ("Tensor.pow.0", [4.0, 8.0, 12.0])):
        (leaf,) = data[f"{call}.backward"]["output"].values()
        np.testing.assert_allclose(value(tmp_path, leaf), slope, rtol=1e-6)


def test_what_is_changed_in_place_is_recorded_with_its_values_from_before(tmp_path):
    x = torch.zeros(3)
    with recorded(tmp_path):
        x.add_(2)
        x[1:] = 5
        x *= 2
    data = entries(tmp_path)
    pairs = [
        (value(tmp_path, call["input_args"][0]).tolist(), value(tmp_path, *call["output"]).tolist())
        for call in data.values()
    ]
    assert list(data) == [f"Tensor.{name}.0.forward" for name in ("add_", "__setitem__", "mul_")]
    assert pairs == [([0, 0, 0], [2, 2, 2]), ([2, 2, 2], [2, 5, 5]), ([2, 5, 5], [4, 10, 10])]


def test_the_recording_says_which_output_an_input_is(tmp_path):
    golden = train(tmp_path / "golden")
    graph = MsprobeImporter().read(golden)
    ops = {op.name: op for op in graph.ops}
    view = ops["Tensor.mT.0.forward"]
    assert ops["Functional.layer_norm.0.forward"].inputs[0].producer.op == view.id
    assert view.inputs[0].producer.op == ops["Tensor.flatten.0.forward"].id


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float64", "bool"])
def test_tensors_keep_their_bits(name, tmp_path):
    x = torch.arange(-3, 5).to(getattr(torch, name))
    with recorded(tmp_path):
        x.clone()
    leaf = entries(tmp_path)["Tensor.clone.0.forward"]["output"][0]
    raw = value(tmp_path, leaf)
    assert leaf["dtype"] == f"torch.{name}"
    assert raw.tobytes() == x.view(torch.uint8).numpy().tobytes()
    graph = MsprobeImporter().read(tmp_path)
    assert graph.ops[0].outputs[0].dtype.value == name


def test_recording_changes_no_value(tmp_path):
    def step() -> list[Any]:
        torch.manual_seed(3)
        model = Net()
        loss = model(torch.randn(2, 3, 6, 6)).square().sum()
        loss.backward()
        return [loss.detach(), *(each.grad for each in model.parameters())]

    plain = step()
    with recorded(tmp_path):
        watched = step()
    assert all(map(torch.equal, plain, watched))


def test_each_step_is_a_folder(tmp_path):
    train(tmp_path, steps=2)
    first, second = entries(tmp_path, 0), entries(tmp_path, 1)
    assert first.keys() >= {"Functional.conv2d.0.forward", "Module.Net.forward.0"}
    assert "Functional.conv2d.0.forward" in second
    train(tmp_path)  # another block goes on behind
    assert (tmp_path / "step2/rank0/dump.json").exists()


def test_a_step_that_an_exception_ends_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), recorded(tmp_path):
        torch.ones(3) + 1 / 0
    assert not list(tmp_path.rglob("*.*"))


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot record this step"), recorded(tmp_path / "file"):
        torch.ones(3).add(1)


def test_a_model_that_is_no_module_is_refused(tmp_path):
    with (
        pytest.raises(InputError, match=r"no torch\.nn\.Module"),
        recorded(tmp_path, model=lambda x: x),
    ):
        torch.ones(3).add(1)


def test_a_compiled_run_says_that_it_ran_as_written(tmp_path):
    golden = train(tmp_path / "golden", change=torch.compile)
    graph = MsprobeImporter().read(golden)
    assert "Functional.conv2d.0.forward" in {op.name for op in graph.ops}
    assert any("not the compiled one" in line for line in graph.warnings)


def test_gradients_by_parameters_are_those_that_were_accumulated(tmp_path):
    layer, x = torch.nn.Linear(2, 3), torch.randn(4, 2)
    with recorded(tmp_path, model=layer):
        layer(x).sum().backward()
    leaf = entries(tmp_path)["Module.Linear.parameters_grad.0"]["weight"][0]
    np.testing.assert_array_equal(value(tmp_path, leaf), layer.weight.grad.numpy())


class Scaled(torch.overrides.TorchFunctionMode):
    """A fault below what is recorded: what one function makes, times a factor."""

    def __init__(self, name: str, factor: float) -> None:
        super().__init__()
        self.name, self.factor = name, factor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * self.factor if self.name in getattr(func, "__name__", "") else made


class Recurrent(torch.nn.Module):
    """Calls that have no row: PyTorch runs them again."""

    def forward(self, x: Any) -> Any:
        return torch.special.i0(x).cummax(1).values + torch.linalg.matrix_exp(x)


def test_what_has_no_row_is_run_again_by_pytorch(tmp_path):
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1))
    for name, dtype, factor in (("golden", torch.float64, 1), ("device", torch.float32, 1.5)):
        with Scaled("matrix_exp", factor), recorded(tmp_path / name):
            Recurrent()(x.to(dtype))
    run = dg.compare(tmp_path / "golden", None, tmp_path / "device", None)
    (origin,) = run.data.origins
    assert "matrix_exp" in origin.op
    assert any("by PyTorch, as they have no row" in line for line in run.data.run.warnings)
