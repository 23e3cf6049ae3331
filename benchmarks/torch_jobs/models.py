"""Small models of many kinds, with their data: what ``make.py`` dumps training steps of."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor


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
            q, k, v = (part.reshape(batch, length, 4, 8).transpose(1, 2) for part in parts)
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


class Gpt(nn.Module):
    """A decoder with rotary positions, a gated MLP and the embedding as its head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(60, 32), nn.RMSNorm(32)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {"n": nn.RMSNorm(32), "q": nn.Linear(32, 96, bias=False), "m": nn.RMSNorm(32),
                 "o": nn.Linear(32, 32, bias=False), "g": nn.Linear(32, 80, bias=False),
                 "u": nn.Linear(32, 80, bias=False), "d": nn.Linear(80, 32, bias=False)}
            )
            for _ in range(2)
        )  # fmt: skip

    def forward(self, names: Tensor) -> Tensor:
        x = self.words(names)
        batch, length, _ = x.shape
        places = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
        angles = torch.cat([places, places], -1).to(x.dtype)
        cos, sin = angles.cos(), angles.sin()
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        for layer in self.layers:
            q, k, v = layer["q"](layer["n"](x)).view(batch, length, 3, 4, 8).unbind(2)
            q, k = (self.turned(t.transpose(1, 2), cos, sin) for t in (q, k))
            scores = (q @ k.transpose(-1, -2) * 8**-0.5).masked_fill(mask, float("-inf"))
            mixed = functional.softmax(scores, -1) @ v.transpose(1, 2)
            x = x + layer["o"](mixed.transpose(1, 2).reshape(batch, length, 32))
            h = layer["m"](x)
            x = x + layer["d"](functional.silu(layer["g"](h)) * layer["u"](h))
        return functional.linear(self.last(x), self.words.weight)

    @staticmethod
    def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotary positions put into *x*."""
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        names = torch.randint(0, 60, (2, 12), generator=draw)
        return [names], torch.randint(0, 60, (2, 12), generator=draw)


class Vit(nn.Module):
    """Patches, a class token, positions, PyTorch's own encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.token, self.places = nn.Parameter(torch.randn(32)), nn.Parameter(torch.randn(17, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", norm_first=True,
                                           batch_first=True)  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        words = self.patches(image).flatten(2).permute(0, 2, 1)
        token = self.token.expand(len(image), 1, 32)
        x = self.layers(torch.cat([token, words], 1) + self.places)
        return self.head(functional.tanh(self.norm(x)[:, 0]))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        image = torch.randn(3, 3, 16, 16, generator=draw)
        return [image], torch.randint(0, 10, (3,), generator=draw)


class Unet(nn.Module):
    """A segmentation net: down, nearest and bilinear up, skips, instance norm, leaky ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.c, self.d = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 5, 1)
        self.n, self.m = nn.InstanceNorm2d(8, affine=True), nn.GroupNorm(4, 16)
        self.k = nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        wide = functional.leaky_relu(self.n(self.a(functional.pad(x, (1, 1, 1, 1), "reflect"))))
        small = functional.elu(self.m(self.b(functional.max_pool2d(wide, 2))))
        up = functional.interpolate(small, size=wide.shape[-2:], mode="nearest")
        up = functional.hardswish(self.k(self.c(torch.cat([up, wide], 1))))
        made = self.d(functional.avg_pool2d(up, 3, 1, 1))
        return functional.interpolate(made, size=x.shape[-2:], mode="bilinear").permute(0, 2, 3, 1)

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        image = torch.randn(2, 3, 12, 12, generator=draw)
        return [image], torch.randint(0, 5, (2, 12, 12), generator=draw)


class Speech(nn.Module):
    """One-dimensional convolutions, a recurrent layer and frames of characters."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(12, 24, 5, stride=2, padding=2), nn.BatchNorm1d(24)
        self.second, self.gate = nn.Conv1d(24, 24, 3, padding=1, groups=24), nn.Conv1d(24, 48, 1)
        self.turns, self.memory = (
            nn.GRU(24, 20, batch_first=True),
            nn.LSTM(20, 16, batch_first=True),
        )
        self.head, self.scale = nn.Linear(16, 9), nn.PReLU(24)

    def forward(self, sound: Tensor) -> Tensor:
        x = self.scale(self.norm(self.first(torch.log(sound.abs() + 0.1))))
        x = x + functional.glu(self.gate(functional.silu(self.second(x))), 1)
        x, _ = self.turns(x.transpose(1, 2))
        x, _ = self.memory(torch.clamp(x, -0.9, 0.9))
        return self.head(functional.normalize(x, dim=-1) * 4)

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        sound = torch.randn(2, 12, 20, generator=draw)
        return [sound], torch.randint(0, 9, (2, 10), generator=draw)


class Vae(nn.Module):
    """An autoencoder with a drawn code, which is made of its input here, and transposed layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.code = nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.Linear(288, 16)
        self.wide, self.up = nn.Linear(8, 288), nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.last = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, image: Tensor, noise: Tensor) -> Tensor:
        mean, spread = self.code(torch.flatten(functional.mish(self.first(image)), 1)).split(8, 1)
        code = mean + torch.exp(0.5 * spread) * noise
        self.cost = -0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp()) * 1e-3
        made = functional.softplus(self.wide(code)).view(-1, 8, 6, 6)
        return torch.sigmoid(self.last(functional.relu6(self.up(made))))

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        image = torch.rand(3, 1, 12, 12, generator=draw)
        return [image, torch.randn(3, 8, generator=draw)], image


class Clip(nn.Module):
    """Two towers whose outputs are held against each other."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, 24, 4, stride=4), nn.Embedding(30, 24)
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)
        self.norm, self.image, self.text = nn.LayerNorm(24), nn.Linear(24, 16), nn.Linear(24, 16)
        self.scale = nn.Parameter(torch.tensor(math.log(8.0)))

    def forward(self, image: Tensor, names: Tensor) -> Tensor:
        seen = self.image(self.patches(image).flatten(2).amax(-1))
        x = self.words(names)
        mixed, _ = self.attention(x, x, x)
        x = self.norm(x + mixed)
        read = self.text(x[torch.arange(len(names)), names.argmax(-1)])
        seen, read = seen / seen.norm(dim=-1, keepdim=True), functional.normalize(read, dim=-1)
        return self.scale.exp() * seen @ read.t()

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        image = torch.randn(4, 3, 8, 8, generator=draw)
        return [image, torch.randint(0, 30, (4, 7), generator=draw)], torch.arange(4)


class Routed(nn.Module):
    """Experts that words are gathered for and whose results are added back in place."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.router = nn.Embedding(40, 24), nn.Linear(24, 4)
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 40)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24)) for _ in range(4)
        )

    def forward(self, names: Tensor) -> Tensor:
        x = self.norm(self.words(names)).flatten(0, 1)
        shares = functional.softmax(self.router(x), -1)
        best, chosen = shares.topk(2, -1)
        made = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == at)
            if len(rows):
                made.index_add_(0, rows, expert(x[rows]) * best[rows, places, None])
        busy = functional.one_hot(chosen, 4).to(x.dtype).mean((0, 1))
        self.cost = 0.01 * torch.sum(busy * shares.mean(0)) * 4
        return self.head(torch.stack([x, made], 1).sum(1)).unflatten(0, names.shape)

    def data(self, draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
        names = torch.randint(0, 40, (2, 9), generator=draw)
        return [names], torch.randint(0, 40, (2, 9), generator=draw)


MODELS: dict[str, type[nn.Module]] = {
    "conv": Conv, "encoder": Encoder, "experts": Experts, "denoiser": Denoiser, "gpt": Gpt,
    "vit": Vit, "unet": Unet, "speech": Speech, "vae": Vae, "clip": Clip, "routed": Routed,
}  # fmt: skip
