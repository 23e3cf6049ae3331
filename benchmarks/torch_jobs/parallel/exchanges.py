"""Calls between ranks that gradients pass through."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

from benchmarks.torch_jobs.parallel.setting import Setting

Tensor = torch.Tensor
Function = torch.autograd.Function


class Exchanged(Function):
    """Rows to the ranks they are for: *got* and *given* say how many of each."""

    @staticmethod
    def forward(context: Any, rows: Tensor, got: list[int], given: list[int]) -> Tensor:
        context.sizes = got, given
        out = rows.new_empty((sum(got), rows.shape[1]))
        distributed.all_to_all_single(out, rows.contiguous(), got, given)
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,), (got, given) = gradients, context.sizes
        out = gradient.new_empty((sum(given), gradient.shape[1]))
        distributed.all_to_all_single(out, gradient.contiguous(), given, got)
        return out, None, None


class Gathered(Function):
    """The parts of all ranks one after the other."""

    @staticmethod
    def forward(context: Any, part: Tensor, count: int) -> Tensor:
        context.count = count
        out = part.new_empty((count * part.shape[0], *part.shape[1:]))
        distributed.all_gather_into_tensor(out, part.contiguous())
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        out = gradient.new_empty((gradient.shape[0] // context.count, *gradient.shape[1:]))
        distributed.reduce_scatter_tensor(out, gradient.contiguous())
        return out, None


def passed_on(value: Tensor, count: int, rank: int, step: int) -> Tensor:
    """What the rank *step* places before this one has as *value*."""
    value = value.contiguous()
    out = torch.empty_like(value)
    work = distributed.batch_isend_irecv(
        [
            distributed.P2POp(distributed.isend, value, (rank + step) % count),
            distributed.P2POp(distributed.irecv, out, (rank - step) % count),
        ]
    )
    for each in work:
        each.wait()
    return out


class Passed(Function):
    """The keys or values of the rank before this one."""

    @staticmethod
    def forward(context: Any, value: Tensor, count: int, rank: int) -> Tensor:
        context.place = count, rank
        return passed_on(value, count, rank, 1)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return passed_on(gradients[0], *context.place, -1), None, None


class AddedUp(Function):
    """The sum of what the ranks of a pair have."""

    @staticmethod
    def forward(_: Any, value: Tensor, group: distributed.ProcessGroup) -> Tensor:
        value = value.contiguous().clone()
        distributed.all_reduce(value, group=group)
        return value

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class Copied(Function):
    """What the ranks of a pair all read: its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, value: Tensor, group: distributed.ProcessGroup) -> Tensor:
        context.group = group
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0].contiguous().clone()
        distributed.all_reduce(gradient, group=context.group)
        return gradient, None


def added_up(value: Tensor, setting: Setting) -> Tensor:
    return AddedUp.apply(value, setting.pairs) if setting.pair > 1 else value


def copied(value: Tensor, setting: Setting) -> Tensor:
    return Copied.apply(value, setting.pairs) if setting.pair > 1 else value
