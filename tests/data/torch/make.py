"""Make the two recorded steps beside this file: ``python make.py``, with PyTorch installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import nn

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


if __name__ == "__main__":
    here = Path(__file__).parent
    train(here / "golden", torch.float32, 1e-5)
    train(here / "faulty", torch.bfloat16, 0.1)
