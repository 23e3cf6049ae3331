"""Models exported by PyTorch, run without it and held against it."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.installed import open_here
from divergraph.execute.translate.torch.exported import TorchExportFactory
from importers.torch_export.importer import TorchExportImporter

torch = pytest.importorskip("torch", reason="needs PyTorch, the extra divergraph[torch]")
pytestmark = pytest.mark.torch
nn, F = torch.nn, torch.nn.functional


class Images(nn.Module):
    """A step of a diffusion model: time embedding, groups, attention, resizing both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(4, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.batch, self.time = nn.BatchNorm2d(16), nn.Linear(32, 16)
        self.down, self.up = nn.Conv2d(16, 32, 3, 2, 1), nn.ConvTranspose2d(32, 16, 2, 2)
        self.mix = nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x: Any, t: Any) -> Any:
        angle = t[:, None].float() * torch.exp(-math.log(1e4) * torch.arange(16) / 16)
        time = self.time(torch.cat([angle.sin(), angle.cos()], -1).to(x))
        h = self.batch(F.silu(self.norm(self.stem(x)))) + time[:, :, None, None]
        low = self.down(h)
        words = low.flatten(2).mT
        words = words + self.mix(words, words, words, need_weights=False)[0]
        low = words.mT.reshape(low.shape)
        resized = F.interpolate(low[:, :16], scale_factor=2.0, mode="bilinear")
        resized = resized + F.interpolate(low[:, 16:], scale_factor=2, mode="nearest")
        return self.head(torch.cat([self.up(low) + resized, F.max_pool2d(h, 3, 1, 1)], 1))


class Words(nn.Module):
    """A decoder layer: angles without gradients, grouped heads, masks, experts by top-k."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 32), nn.RMSNorm(32, eps=1e-6)
        self.query, self.pair = nn.Linear(32, 32), nn.Linear(32, 32)
        self.router = nn.Linear(32, 4)
        self.experts = nn.Parameter(torch.randn(4, 32, 32) / 6)

    @torch.no_grad()
    def angles(self, length: int) -> Any:
        with torch.autocast("cpu", enabled=False):
            turns = torch.outer(torch.arange(length).float(), 100 ** -(torch.arange(4) / 4))
        return torch.cat([turns, turns], -1)

    def forward(self, names: Any, mask: Any) -> Any:
        x = self.norm(self.words(names))
        rows, length, _ = x.shape
        q = self.query(x).view(rows, length, 4, 8).transpose(1, 2)
        k, v = self.pair(x).view(rows, length, 4, 8).transpose(1, 2).split(2, 1)
        angle = self.angles(length).to(x)
        q = q * angle.cos() + torch.cat([-q[..., 4:], q[..., :4]], -1) * angle.sin()
        k, v = (each.repeat_interleave(2, 1) for each in (k, v))
        scores = q @ k.mT / math.sqrt(8) + torch.full((length, length), -math.inf).triu(1)
        scores = scores.masked_fill(~mask[:, None, None, :].bool(), -1e9)
        x = x + (scores.softmax(-1).to(v) @ v).transpose(1, 2).flatten(2)
        best, places = self.router(x).softmax(-1).topk(2, -1)
        gates = torch.zeros(rows, length, 4).to(x).scatter(-1, places, best)
        return (torch.einsum("bsd,edf->besf", x, self.experts) * gates.mT[..., None]).sum(1)


class Sounds(nn.Module):
    """Speech: strided convolutions, a normed weight, an encoder, two directions, a scan."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, 16, 10, 5), nn.GroupNorm(16, 16)
        self.place = nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 4, padding=2))
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.turns = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.gate = nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.norm(self.first(x[:, None])))
        h = self.layer((h + F.gelu(self.place(h)[:, :, :-1])).mT)
        made, _ = self.turns(h)
        step, state = F.softplus(self.gate(made)), torch.zeros(len(x), 16)
        states = []
        for at in range(4):
            state = state * torch.exp(-step[:, at]) + step[:, at] * made[:, at]
            states.append(state)
        return F.log_softmax(torch.stack(states, 1), -1)


MODELS = {
    "images": (Images, lambda: (torch.randn(2, 4, 8, 8), torch.tensor([3, 500]))),
    "words": (
        Words,
        lambda: (torch.randint(0, 50, (2, 6)), torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])),
    ),
    "sounds": (Sounds, lambda: (torch.randn(2, 60),)),
}


@pytest.mark.filterwarnings("ignore")  # of PyTorch's own export
@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_models_give_what_pytorch_makes(
    name: str, dtype: str, decomposed: bool, tmp_path: Path
) -> None:
    make, inputs = MODELS[name]
    torch.manual_seed(3)
    model, args = make().eval().to(getattr(torch, dtype)), inputs()
    typed = [each.to(getattr(torch, dtype)) if each.is_floating_point() else each for each in args]
    program = torch.export.export(model, tuple(typed))
    path = tmp_path / "model.pt2"
    torch.export.save(program.run_decompositions() if decomposed else program, path)
    # Golden values are those of the weights and inputs as they are, computed in float32.
    exact = [each.float() if each.is_floating_point() else each for each in typed]
    expected = model.float()(*exact).detach().numpy()
    graph = TorchExportImporter().read(path)
    feeds = {tensor.name: arg.numpy() for tensor, arg in zip(graph.inputs, exact, strict=True)}
    (output,) = graph.outputs
    wanted = graph.op_index()[output.op].outputs[output.port].name
    with closing(open_here(TorchExportFactory(), path, graph, None)) as executor:
        made = dict(executor.run(feeds))
    outputs = {tensor.name for op in graph.ops for tensor in op.outputs}
    assert {each for each in outputs - made.keys() if "unused" not in each} == set()
    assert np.allclose(made[wanted], expected, rtol=1e-4, atol=1e-5)
