"""Make the recorded steps beside this file: ``python make.py``, with PyTorch installed.

``settings.tar.xz`` has steps of a small language model that is set up or called otherwise than
golden's, with every call right, and one (``short``) of which a call is wrong.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from divergraph.torch import recorded


def train(folder: Path, dtype: torch.dtype, eps: float) -> None:
    """One step, forward and backward, of a small net in *dtype* whose norm has this *eps*."""
    torch.manual_seed(2)
    layers = nn.Linear(6, 8), nn.LayerNorm(8, eps=eps), nn.GELU(), nn.Linear(8, 3)
    net = nn.Sequential(*layers).to(dtype)
    x, y = torch.randn(2, 5, 6).to(dtype), torch.tensor([[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]])
    shutil.rmtree(folder, ignore_errors=True)
    with recorded(folder, model=net):
        made = net(x)[:, 1:].flatten(0, 1).float()
        nn.functional.cross_entropy(made, y[:, 1:].flatten()).backward()


class Words(nn.Module):
    """A language model whose head has the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(12, 8), nn.Embedding(6, 8)
        self.mixed = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("scales", 0.1 ** torch.arange(8.0))

    def forward(
        self, x: torch.Tensor, labels: torch.Tensor, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss."""
        places = torch.arange(5)[None] if places is None else places
        made = self.words(x) + self.places(places) + self.scales
        for layer in self.mixed:
            made = made + nn.functional.gelu(layer(made))
        return nn.functional.cross_entropy(self.head(made).flatten(0, 1), labels.view(-1))


def _detached(model: Words, _: dict[str, torch.Tensor]) -> None:
    model.mixed[1].register_forward_hook(lambda _, __, made: made.detach())


def _frozen(model: Words, _: dict[str, torch.Tensor]) -> None:
    model.mixed[1].weight.requires_grad_(False)


def _untied(model: Words, _: dict[str, torch.Tensor]) -> None:
    model.head.weight = nn.Parameter(model.words.weight.detach().clone())


def _kept(model: Words, given: dict[str, torch.Tensor]) -> None:
    model(**given).backward()


def _labels(_: Words, given: dict[str, torch.Tensor]) -> None:
    given["labels"] = given["labels"].roll(1, 1)


def _places(_: Words, given: dict[str, torch.Tensor]) -> None:
    given["places"] = torch.arange(1, 6)[None].expand(2, -1)


def _scales(model: Words, _: dict[str, torch.Tensor]) -> None:
    model.scales.mul_(torch.linspace(1, 0.8, 8))


def _behind(model: Words, _: dict[str, torch.Tensor]) -> None:
    model.head.register_forward_pre_hook(lambda _, given: (given[0].detach(),))


def _decay(_: Words, given: dict[str, torch.Tensor]) -> None:
    given["decay"] = torch.tensor(0.1)


SETTINGS: dict[str, Callable[[Words, dict[str, torch.Tensor]], None]] = {
    each.__name__.strip("_"): each
    for each in (
        _detached, _behind, _frozen, _untied, _kept, _labels, _places, _scales, _decay,
    )
}  # fmt: skip


class Short(TorchFunctionMode):
    """The second linear layer leaves out the last two products of each sum. Entered before the
    recorder, it is not seen by that."""

    calls = 0

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the call gives."""
        if function is nn.functional.linear:
            self.calls += 1
            if self.calls == 2:
                args = (args[0] * (torch.arange(8) < 6), *args[1:])
        return function(*args, **(kwargs or {}))


def set_otherwise(folder: Path, dtype: torch.dtype, setting: str = "") -> None:
    """One step of the language model in *dtype*, set up or called otherwise by *setting*."""
    torch.manual_seed(2)
    model = Words().to(dtype)
    given = {"x": torch.randint(12, (2, 5)), "labels": torch.randint(12, (2, 5))}
    if setting in SETTINGS:
        SETTINGS[setting](model, given)
    decay = 1 - 1e-3 * float(given.pop("decay", torch.tensor(0.01)))
    with Short() if setting == "short" else nullcontext(), recorded(folder, model=model):
        model(**given).backward()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.grad is not None:
                    weight.mul_(decay).add_(weight.grad, alpha=-1e-3)


if __name__ == "__main__":
    here = Path(__file__).parent
    train(here / "golden", torch.float32, 1e-5)
    train(here / "faulty", torch.bfloat16, 0.1)
    with TemporaryDirectory() as made, tarfile.open(here / "settings.tar.xz", "w:xz") as packed:
        set_otherwise(Path(made, "golden"), torch.float32)
        set_otherwise(Path(made, "right"), torch.bfloat16)
        for each in (*SETTINGS, "short"):
            set_otherwise(Path(made, each), torch.bfloat16, each)
        packed.add(made, "settings")
