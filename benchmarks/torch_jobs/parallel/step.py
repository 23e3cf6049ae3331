"""One training step of a rank, and its optimizer."""

from __future__ import annotations

import torch
from torch import distributed, nn
from torch.nn import functional

from benchmarks.torch_jobs.parallel.model import Model, load, plain_parameters
from benchmarks.torch_jobs.parallel.setting import Setting

Tensor = torch.Tensor
LONGEST = 0.5
"""The norm that gradients of shards are clipped to."""


class Step:
    """The model of a rank, and what its step does besides calling it."""

    def __init__(self, setting: Setting, dtype: torch.dtype) -> None:
        self.setting, self.dtype = setting, dtype
        self.groups = setting.pairs, setting.same_weights, setting.all_but_last
        plain = Model(setting)
        load(plain, setting)
        self.model: nn.Module = self._wrapped(plain.to(dtype))
        self.shards: dict[str, nn.Parameter] = {}
        if setting.split("shards") > 1:
            for name, parameter in self.model.named_parameters():
                flat = self._padded(parameter.detach())
                own = flat.chunk(setting.count)[setting.rank].clone()
                self.shards[name] = nn.Parameter(own)
        parameters = list(self.shards.values()) or list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-2, foreach=False)

    def _wrapped(self, model: nn.Module) -> nn.Module:
        if self.setting.split("fsdp2") > 1:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh("cpu", (self.setting.count,))
            for block in model.blocks:  # type: ignore[union-attr]
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        if self.setting.split("ddp") > 1:
            return nn.parallel.DistributedDataParallel(model)
        return model

    def _padded(self, value: Tensor) -> Tensor:
        share = -(-value.numel() // self.setting.count)
        flat = torch.zeros(share * self.setting.count, dtype=self.dtype)
        flat[: value.numel()] = value.flatten()
        return flat

    def data(self) -> tuple[Tensor, Tensor]:
        """What this rank reads, and what is to follow."""
        setting = self.setting
        draw = torch.Generator().manual_seed(setting.seed + 60)
        words = torch.randint(0, setting.words, (setting.batch, setting.length + 1), generator=draw)
        at = 0 if setting.goes_wrong("same_data") else setting.rank // setting.pair
        if setting.copies > 1:
            words = words.chunk(setting.copies)[at]
        read, wanted = words[:, :-1], words[:, 1:]
        return read[:, setting.places()], wanted[:, setting.places()]

    def run(self) -> float:
        """Go one step; the loss."""
        read, wanted = self.data()
        if self.shards:
            self._gather()
        if self.setting.stages > 1:
            loss = self._pipeline(read, wanted)
        else:
            loss = self._loss(self.model(read), wanted)
            loss.backward()
        self._reduce()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss)

    def _loss(self, made: Tensor, wanted: Tensor) -> Tensor:
        loss = functional.cross_entropy(made.flatten(0, 1).float(), wanted.flatten())
        if self.setting.kind == "experts" and isinstance(self.model, Model):
            loss = loss + self.model.balance()
        return loss

    # a pipeline

    def _pipeline(self, read: Tensor, wanted: Tensor) -> Tensor:
        setting, count = self.setting, self.setting.micro_batches
        stage, last = setting.rank, setting.stages - 1
        pairs = zip(read.chunk(count), wanted.chunk(count), strict=True)
        calls: list[tuple[Tensor, Tensor]] = []
        losses = torch.zeros(())
        for part, target in pairs:
            given = part
            if stage:
                shape = (*part.shape, setting.width)
                given = torch.empty(shape, dtype=self.dtype)
                distributed.recv(given, stage - 1)
                given.requires_grad_()
            made = self.model(given)
            if stage < last:
                distributed.send(made.detach().contiguous(), stage + 1)
            else:
                made = self._loss(made, target) / count
                losses = losses + made.detach()
            calls.append((given, made))
        for given, made in calls:
            gradient = None
            if stage < last:
                gradient = torch.empty_like(made)
                distributed.recv(gradient, stage + 1)
            made.backward(gradient)
            if stage and given.grad is not None:
                distributed.send(given.grad.contiguous(), stage - 1)
        return losses

    # gradients

    def _gather(self) -> None:
        for name, parameter in self.model.named_parameters():
            shard = self.shards[name].detach()
            whole = torch.empty(shard.numel() * self.setting.count, dtype=self.dtype)
            distributed.all_gather_into_tensor(whole, shard)
            with torch.no_grad():
                parameter.copy_(whole[: parameter.numel()].view_as(parameter))

    def _reduce(self) -> None:
        setting = self.setting
        if self.shards:
            self._scatter()
        elif setting.kind == "shards":
            self._clip(self._squares())
        elif setting.count > 1 and setting.kind in ("experts", "zigzag", "ring", "tensor"):
            for name, parameter in plain_parameters(self.model):
                if parameter.grad is not None:
                    self._mean(name, parameter.grad)

    def _mean(self, name: str, gradient: Tensor) -> None:
        setting = self.setting
        count = setting.count // setting.pair
        if count == 1:
            return
        is_spoilt = name == "blocks.1.attn.k.weight"
        if ".experts." in name:  # whose rank has the words of all
            gradient.div_(count)
            return
        if is_spoilt and setting.fault == "reduction_missing":
            return
        group = setting.same_weights
        if is_spoilt and setting.fault == "other_group":
            group = setting.pairs
        if is_spoilt and setting.fault == "rank_left_out":
            if setting.rank == setting.count - 1:
                return
            group = setting.all_but_last
        distributed.all_reduce(gradient, group=group)
        if setting.fault != "summed":
            gradient.div_(count)

    def _scatter(self) -> None:
        setting = self.setting
        for name, parameter in self.model.named_parameters():
            assert parameter.grad is not None
            out = torch.empty_like(self.shards[name])
            distributed.reduce_scatter_tensor(out, self._padded(parameter.grad))
            self.shards[name].grad = out if setting.fault == "summed" else out.div_(setting.count)
            parameter.grad = None
        squares = self._squares()
        if setting.fault != "norm_of_one_rank":
            distributed.all_reduce(squares)
        self._clip(squares)

    def _squares(self) -> Tensor:
        return torch.stack([each.float().pow(2).sum() for each in self._gradients()]).sum()

    def _gradients(self) -> list[Tensor]:
        parameters = self.shards.values() or self.model.parameters()
        return [each.grad for each in parameters if each.grad is not None]

    def _clip(self, squares: Tensor) -> None:
        share = (LONGEST / squares.sqrt()).clamp(max=1.0)
        for gradient in self._gradients():
            gradient.mul_(share.to(gradient.dtype))
