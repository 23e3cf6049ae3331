"""Training steps of small PyTorch models, dumped by msprobe, healthy and with a fault in one call.

    python benchmarks/torch_jobs/make.py FOLDER

Needs ``torch`` and ``mindstudio-probe`` from PyPI, in an environment of their own. Makes a folder
for each model (a convolutional net, an encoder, a mixture of experts, a denoiser): ``golden`` in
float32, ``bf16`` and ``fp16``, and one for each fault, in bfloat16. A folder is called
``MODEL-FAULT-CALL``, where the fault sits in that call of its kind, below what msprobe wraps: so
its inputs are right and its output is wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
TYPES = {"golden": torch.float32, "fp16": torch.float16}


def of_last(made: Tensor, at: int, factor: float) -> Tensor:
    """One channel of the last axis times a factor."""
    scale = torch.ones_like(made)
    scale[..., at] = factor
    return made * scale


def with_nan(made: Tensor) -> Tensor:
    """One NaN."""
    spoilt = torch.zeros_like(made)
    spoilt.view(-1)[3] = float("nan")
    return made + spoilt


SPOILT: dict[str, Callable[[Tensor], Tensor]] = {
    "scale": lambda made: made * 1.25,
    "negate": lambda made: -made,
    "shift": lambda made: torch.roll(made, 1, -1),
    "channel": lambda made: of_last(made, 2, 1.3),
    "lost_channel": lambda made: of_last(made, -1, 0.0),
    "nan": with_nan,
}
FAULTS = {
    "conv": ["conv2d 1 channel", "conv2d 1 no_bias", "conv2d 1 shift", "batch_norm 0 scale",
             "group_norm 0 scale", "relu 0 negate", "gelu 0 scale", "max_pool2d 0 shift",
             "interpolate 0 shift", "linear 0 lost_channel", "cross_entropy 0 scale"],
    "encoder": ["linear 1 no_bias", "linear 3 lost_channel", "linear 2 shift", "linear 4 channel",
                "softmax 1 scale", "softmax 0 shift", "layer_norm 1 scale", "layer_norm 2 channel",
                "gelu 1 negate", "embedding 0 shift", "linear 1 nan"],
    "experts": ["silu 0 scale", "silu 0 negate", "linear 1 scale", "embedding 0 lost_channel",
                "linear 1 nan", "cross_entropy 0 scale"],
    "denoiser": ["conv2d 1 channel", "conv2d 1 no_bias", "group_norm 0 scale", "silu 1 negate",
                 "scaled_dot_product_attention 0 shift", "linear 1 no_bias", "mse_loss 0 scale",
                 "scaled_dot_product_attention 0 lost_channel", "conv2d 2 shift"],
}  # fmt: skip


def spoil(name: str, at: int, fault: str) -> None:
    """Make call *at* of a function wrong."""
    plain, count = getattr(functional, name), iter(range(1 << 30))

    def called(*given: Any, **options: Any) -> Tensor:
        if next(count) != at:
            return plain(*given, **options)
        if fault == "no_bias":
            return plain(given[0], given[1], None, *given[3:], **options)
        return SPOILT[fault](plain(*given, **options))

    setattr(functional, name, called)


class Conv(nn.Module):
    """A convolutional net with two kinds of normalisation, pools and resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2)
        self.groups, self.third = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=2, dilation=2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.first(x)))
        x = functional.gelu(self.groups(self.second(x)))
        x = functional.max_pool2d(functional.silu(self.third(x)), 2)
        x = functional.interpolate(x, scale_factor=2, mode="bilinear")
        return self.head(functional.avg_pool2d(x, 2).mean((2, 3)))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        return [torch.randn(4, 3, 12, 12, generator=draw)], torch.randint(
            0, 10, (4,), generator=draw
        )


class Encoder(nn.Module):
    """Two layers of a transformer, written out, with a pooled output."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, 32), nn.Linear(32, 7)
        layer = {"n": nn.LayerNorm(32), "q": nn.Linear(32, 96), "o": nn.Linear(32, 32)}
        layer |= {"m": nn.LayerNorm(32), "u": nn.Linear(32, 64), "d": nn.Linear(64, 32)}
        self.layers = nn.ModuleList(nn.ModuleDict(layer) for _ in range(1))
        self.layers.append(nn.ModuleDict({k: type(v)(*_sizes(v)) for k, v in layer.items()}))

    def forward(self, names: Tensor) -> Tensor:
        x = self.words(names)
        for layer in self.layers:
            batch, length, _ = x.shape
            parts = layer["q"](layer["n"](x)).chunk(3, -1)
            q, k, v = (each.reshape(batch, length, 4, 8).transpose(1, 2) for each in parts)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / 8**0.5
            mixed = torch.matmul(functional.softmax(scores, -1), v)
            x = x + layer["o"](mixed.transpose(1, 2).reshape(batch, length, 32))
            x = x + layer["d"](functional.gelu(layer["u"](layer["m"](x)), approximate="tanh"))
        return self.head(x.mean(1) + x.std(1))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        names = torch.randint(0, 50, (3, 10), generator=draw)
        return [names], torch.randint(0, 7, (3,), generator=draw)


def _sizes(layer: nn.Module) -> tuple[int, ...]:
    return (layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else (32,)


class Experts(nn.Module):
    """A layer of four experts, two of which each word goes to."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(40, 24), nn.RMSNorm(24, eps=1e-6)
        self.router, self.head = nn.Linear(24, 4, bias=False), nn.Linear(24, 40)
        self.up = nn.Parameter(torch.randn(4, 24, 48) * 0.2)
        self.down = nn.Parameter(torch.randn(4, 48, 24) * 0.2)

    def forward(self, names: Tensor) -> Tensor:
        x = self.words(names)
        h = self.norm(x)
        shares = functional.softmax(self.router(h), -1)
        best, places = torch.topk(shares, 2, -1)
        best = best / best.sum(-1, keepdim=True)
        gates = torch.zeros_like(shares).scatter(-1, places, best)
        inner = functional.silu(torch.einsum("bsd,edf->besf", h, self.up))
        made = torch.einsum("besf,efd->besd", inner, self.down)
        return self.head(x + (made * gates.permute(0, 2, 1).unsqueeze(-1)).sum(1))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        names = torch.randint(0, 40, (2, 9), generator=draw)
        return [names], torch.randint(0, 40, (2, 9), generator=draw)


class Denoiser(nn.Module):
    """A step of a diffusion model: time, convolutions down and up, attention between."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.first = nn.Linear(16, 32), nn.Conv2d(4, 32, 3, padding=1)
        self.norm, self.down = nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 3, stride=2, padding=1)
        self.query, self.pair = nn.Linear(32, 32), nn.Linear(32, 64)
        self.up, self.last = nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1), nn.Conv2d(64, 4, 1)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        waves = torch.exp(-9.2 * torch.arange(8) / 8).to(x.dtype)
        angles = step[:, None].to(x.dtype) * waves
        when = functional.silu(self.time(torch.cat([angles.sin(), angles.cos()], -1)))
        wide = functional.silu(self.norm(self.first(x))) + when[:, :, None, None]
        small = self.down(wide)
        batch, channels, rows, columns = small.shape
        words = small.flatten(2).transpose(1, 2)
        k, v = torch.chunk(self.pair(words), 2, -1)
        q = self.query(words)
        mixed = functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        small = small + mixed.transpose(1, 2).reshape(batch, channels, rows, columns)
        return self.last(torch.cat([self.up(small), wide], 1))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        image = torch.randn(2, 4, 8, 8, generator=draw)
        return [image, torch.tensor([3, 70])], torch.randn(2, 4, 8, 8, generator=draw)


MODELS: dict[str, type[nn.Module]] = {
    "conv": Conv, "encoder": Encoder, "experts": Experts, "denoiser": Denoiser,
}  # fmt: skip


def step(folder: Path, kind: str, dtype: torch.dtype) -> None:
    """One dumped training step with AdamW."""
    from msprobe.pytorch import PrecisionDebugger

    torch.manual_seed(5)
    torch.set_num_threads(1)
    model = MODELS[kind]().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-5, foreach=False)
    inputs, wanted = model.data(torch.Generator().manual_seed(6))
    inputs = [each.to(dtype) if each.is_floating_point() else each for each in inputs]
    folder.mkdir(parents=True)
    parts = {"scope": [], "list": [], "data_mode": ["all"]}
    config = {"task": "tensor", "dump_path": str(folder), "rank": [], "step": [], "level": "mix",
              "is_deterministic": True, "tensor": parts}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    debugger.start(model=model)
    made = model(*inputs).float()
    if wanted.is_floating_point():
        loss = functional.mse_loss(made, wanted)
    else:
        loss = functional.cross_entropy(made.flatten(0, -2), wanted.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    debugger.stop()


def main() -> None:
    """Make all jobs, each in a process of its own after the slow imports."""
    from msprobe.pytorch import PrecisionDebugger  # noqa: F401 - imported once, before the forks

    target = Path(sys.argv[1])
    for kind, faults in FAULTS.items():
        for name in ("golden", "bf16", "fp16", *faults):
            folder = target / f"{kind}-{name.replace(' ', '-')}"
            if folder.exists():
                continue
            child = os.fork()
            if not child:
                if " " in name:
                    function, at, fault = name.split()
                    spoil(function, int(at), fault)
                step(folder, kind, TYPES.get(name, torch.bfloat16))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(folder, "made" if status == 0 else f"failed: {status}")


if __name__ == "__main__":
    main()
