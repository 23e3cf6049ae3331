"""A small transformer as one rank of a job has it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import distributed, nn
from torch.nn import functional

from benchmarks.torch_jobs.parallel.exchanges import Exchanged, Gathered, Passed, added_up, copied
from benchmarks.torch_jobs.parallel.setting import Setting

Tensor = torch.Tensor


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x.float() * torch.rsqrt(mean + 1e-6)).to(x.dtype)


class Expert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.up(x)))


class Experts(nn.Module):
    """Experts that words are routed to; ``balance`` is their auxiliary loss of the last call."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting, width = setting, setting.width
        self.own = setting.experts // setting.split("experts")
        self.router = nn.Linear(width, setting.experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(self.own))
        self.balance = torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        setting, shape = self.setting, x.shape
        x = x.reshape(-1, setting.width)
        chances = torch.softmax(self.router(x).float(), -1)
        weight, chosen = chances.topk(setting.chosen, -1)
        weight, chosen = weight.to(x.dtype).reshape(-1), chosen.reshape(-1)
        self.balance = self._balance(chances, chosen)
        order = torch.argsort(chosen, stable=True)
        rows = x.repeat_interleave(setting.chosen, 0)[order]
        made = self._sent(rows, torch.bincount(chosen, minlength=setting.experts))
        made = made[torch.argsort(order, stable=True)] * weight[:, None]
        return made.view(len(x), setting.chosen, setting.width).sum(1).view(shape)

    def _balance(self, chances: Tensor, chosen: Tensor) -> Tensor:
        """How unevenly words are routed, over all ranks."""
        setting = self.setting
        share = torch.bincount(chosen, minlength=setting.experts).float() / len(chosen)
        if setting.split("experts") > 1 and setting.fault != "balance_of_one_rank":
            distributed.all_reduce(share)
            share = share / setting.count
        return setting.experts * (share * chances.mean(0)).sum()

    def _sent(self, rows: Tensor, counts: Tensor) -> Tensor:
        """What the experts make of *rows*, which lie by expert, *counts* of each."""
        setting, count = self.setting, self.setting.split("experts")
        if count == 1:
            parts = zip(self.experts, rows.split(counts.tolist()), strict=True)
            return torch.cat([expert(part) for expert, part in parts])
        given = counts.view(count, self.own).sum(1).tolist()
        every = torch.empty(count * setting.experts, dtype=counts.dtype)
        distributed.all_gather_into_tensor(every, counts)
        mine = every.view(count, setting.experts)[:, setting.rank * self.own :][:, : self.own]
        got = mine.sum(1).tolist()
        rows = Exchanged.apply(rows, got, given)
        expert_of = torch.arange(self.own).repeat(count).repeat_interleave(mine.reshape(-1))
        if setting.goes_wrong("experts_swapped"):
            expert_of = (expert_of + 1) % self.own
        order = torch.argsort(expert_of, stable=True)
        sizes = torch.bincount(expert_of, minlength=self.own).tolist()
        parts = zip(self.experts, rows[order].split(sizes), strict=True)
        made = torch.cat([expert(part) for expert, part in parts])
        return Exchanged.apply(made[torch.argsort(order, stable=True)], given, got)


class Attention(nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting, width = setting, setting.width
        own = width // setting.pair
        self.q, self.k, self.v = (nn.Linear(width, own) for _ in range(3))
        self.o = nn.Linear(own, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        setting = self.setting
        batch, length, _ = x.shape
        x = copied(x, setting)
        q, k, v = (
            layer(x).view(batch, length, setting.heads // setting.pair, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        places = setting.places()
        q, k = turned(q, places), turned(k, places)
        mixed = self._mixed(q, k, v)
        mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
        return added_up(self.o(mixed), setting)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        setting = self.setting
        if setting.split("ring") > 1:
            return self._by_turns(q, k, v)
        if setting.kind == "ring":
            return attended(q, k, v, setting.places(), setting.places())
        if setting.split("zigzag") > 1:
            k, v = (
                Gathered.apply(each.permute(2, 0, 1, 3), setting.count).permute(1, 2, 0, 3)
                for each in (k, v)
            )
        seen = setting.gathered_places()
        if setting.goes_wrong("mask_in_order", *range(setting.count)):
            seen = torch.arange(setting.length)
        mask = setting.places()[:, None] >= seen[None]
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def _by_turns(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The keys and values of one rank after the other, as each passes them on."""
        setting = self.setting
        scores, values = [], []
        for turn in range(setting.count):
            if turn:
                k, v = (Passed.apply(each, setting.count, setting.rank) for each in (k, v))
            of = (setting.rank - turn) % setting.count
            if setting.goes_wrong("turns_swapped", *range(setting.count)) and turn:
                of = (setting.rank + turn) % setting.count
            mask = setting.places()[:, None] >= setting.places(of)[None]
            scores.append(scored(q, k).masked_fill(~mask, float("-inf")))
            values.append(v)
        return torch.matmul(torch.softmax(torch.cat(scores, -1), -1), torch.cat(values, 2))


def scored(q: Tensor, k: Tensor) -> Tensor:
    return torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])


def attended(q: Tensor, k: Tensor, v: Tensor, places: Tensor, seen: Tensor) -> Tensor:
    scores = scored(q, k).masked_fill(places[:, None] < seen[None], float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


def turned(x: Tensor, places: Tensor) -> Tensor:
    """Rotary embedding."""
    size = x.shape[-1]
    rates = 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size)
    angles = places[:, None].float() * rates[None]
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


class Dense(nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting, width = setting, setting.width
        own = 2 * width // setting.pair
        self.gate, self.up = (nn.Linear(width, own, bias=False) for _ in range(2))
        self.down = nn.Linear(own, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = copied(x, self.setting)
        return added_up(self.down(functional.silu(self.gate(x)) * self.up(x)), self.setting)


class Block(nn.Module):
    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.n1, self.attn, self.n2 = Norm(setting.width), Attention(setting), Norm(setting.width)
        self.mlp = Experts(setting) if setting.kind == "experts" else Dense(setting)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Model(nn.Module):
    """The layers of one rank: of a pipeline those of its stage, numbered from 0."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        stage, last = setting.rank % setting.stages, setting.stages - 1
        share = -(-setting.blocks // setting.stages)
        self.first = stage * share
        own = range(setting.blocks)[self.first :][: share if stage < last else None]
        self.emb = nn.Embedding(setting.words, setting.width) if stage == 0 else None
        self.blocks = nn.ModuleList(Block(setting) for _ in own)
        self.norm = Norm(setting.width) if stage == last else None
        self.head = nn.Linear(setting.width, setting.words, bias=False) if stage == last else None

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.emb is None else self.emb(x)
        for block in self.blocks:
            x = block(x)
        return x if self.norm is None or self.head is None else self.head(self.norm(x))

    def balance(self) -> Tensor:
        """The auxiliary losses of all layers of experts."""
        losses = (block.mlp.balance for block in self.blocks if isinstance(block.mlp, Experts))
        return 0.02 * sum(losses, torch.zeros(()))


def weights(setting: Setting) -> dict[str, Tensor]:
    """Those of the whole model, by name; the same on all ranks."""
    whole = Setting(setting.kind, 1, 0, setting.seed)
    draw = torch.Generator().manual_seed(setting.seed)
    drawn = {}
    for name, parameter in Model(whole).named_parameters():
        values = torch.randn(parameter.shape, generator=draw)
        is_norm = parameter.dim() == 1 and not name.endswith("bias")
        drawn[name] = 1 + 0.1 * values if is_norm else values * 0.15
        if "router" in name:
            drawn[name] *= 4
    return drawn


def load(model: Model, setting: Setting) -> None:
    """Give *model* its parts of the whole model's weights."""
    whole = weights(setting)
    at = setting.rank % setting.pair
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = whole[_name_of_all(name, model, setting)]
            for axis, size in enumerate(parameter.shape):
                if value.shape[axis] != size:
                    value = value.chunk(setting.pair, axis)[at]
            parameter.copy_(value)
            if setting.goes_wrong("weight_of_one_rank", 1) and name.endswith("1.attn.o.weight"):
                noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5))
                parameter.add_(noise * 0.06)


def _name_of_all(name: str, model: Model, setting: Setting) -> str:
    parts = name.split(".")
    for list_name, first in (
        ("blocks", model.first),
        ("experts", setting.rank * (setting.experts // setting.split("experts"))),
    ):
        if list_name in parts and parts[parts.index(list_name) + 1].isdecimal():
            at = parts.index(list_name) + 1
            is_split = list_name == "blocks" or setting.split("experts") > 1
            parts[at] = str(int(parts[at]) + (first if is_split else 0))
    return ".".join(parts)


def plain_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The parameters by name, without the wrapper's."""
    for name, parameter in model.named_parameters():
        yield name.removeprefix("module."), parameter
