"""What goes wrong in a job: below what msprobe records, so that inputs are right and outputs wrong.

``sites.txt`` has of each kind of job its faults, each with parts of names of calls, one of which
must be in that of the first origin.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.nn import functional

from benchmarks.torch_jobs.parallel.setting import Setting

Tensor = torch.Tensor
_SITES = Path(__file__).parent / "sites.txt"


def faults(kind: str, count: int) -> list[str]:
    """Those that a *kind* of job of so many ranks can have: of two the turn before is the next one,
    and of a single expert there is no other."""
    nothing = {"turns_swapped": count < 3, "experts_swapped": count >= Setting.experts}
    lines = (line.split() for line in _SITES.read_text(encoding="utf-8").splitlines())
    return [fault for of, fault, _ in lines if of == kind and not nothing.get(fault)]


class Done:
    """Work that is done."""

    def wait(self) -> bool:
        """That it is."""
        return True


def put_in(setting: Setting) -> None:
    """Let the calls of this rank go wrong as *setting* says, before msprobe wraps them."""
    calls: Counter[str] = Counter()

    def wrapped(name: str, spoil: Any) -> None:
        plain = getattr(distributed, name)

        def call(*given: Any, **options: Any) -> Any:
            at = calls[name]
            calls[name] += 1
            return spoil(plain, at, *given, **options)

        setattr(distributed, name, call)

    def exchanged(plain: Any, at: int, out: Tensor, *given: Any, **options: Any) -> Any:
        work = plain(out, *given, **options)
        sizes = list(given[1])
        if at == 2 and setting.goes_wrong("chunk_lost"):
            out[: sizes[0]] = 0
        if at == 2 and setting.goes_wrong("chunks_swapped", *range(setting.count)):
            out.copy_(torch.cat(list(out.split(sizes))[::-1]))
        if at == 2 * setting.blocks and setting.goes_wrong("gradient_halved", 0):
            out.mul_(0.5)
        return work

    def gathered(plain: Any, at: int, out: Tensor, *given: Any, **options: Any) -> Any:
        work = plain(out, *given, **options)
        if at == 3 and setting.goes_wrong("chunk_lost", 1):
            out.chunk(setting.count)[0].zero_()
        if at == 3 and setting.goes_wrong("parts_swapped", 1):
            out.copy_(torch.cat(list(out.chunk(setting.count))[::-1]))
        return work

    def scattered(plain: Any, at: int, out: Tensor, given: Tensor, **options: Any) -> Any:
        work = plain(out, given, **options)
        if at == 1 and setting.goes_wrong("own_only", 1):
            out.copy_(given.chunk(setting.count)[setting.rank])
        return work

    def reduced(plain: Any, at: int, value: Tensor, *given: Any, **options: Any) -> Any:
        if at == 3 and setting.goes_wrong("own_only", 1):
            own = value.clone()
            work = plain(value, *given, **options)
            value.copy_(own)
            return work
        if at == 3 and setting.fault == "largest":
            return plain(value, distributed.ReduceOp.MAX, **options)
        return plain(value, *given, **options)

    def received(plain: Any, at: int, messages: list[Any], **options: Any) -> Any:
        work = plain(messages, **options)
        if at == 1 and setting.goes_wrong("stale_message", 1):
            for each in work:
                each.wait()
            messages[1].tensor.data.copy_(messages[0].tensor.data)
            return [Done() for _ in work]  # gloo waits for ever for a message that came
        return work

    def arrived(plain: Any, at: int, value: Tensor, *given: Any, **options: Any) -> Any:
        source = plain(value, *given, **options)
        if at == 0 and setting.goes_wrong("message_zeroed"):
            value[0] = 0
        return source

    for name, spoil in (
        ("all_to_all_single", exchanged),
        ("all_gather_into_tensor", gathered),
        ("reduce_scatter_tensor", scattered),
        ("all_reduce", reduced),
        ("batch_isend_irecv", received),
        ("recv", arrived),
    ):
        wrapped(name, spoil)
    plain_linear = functional.linear

    def linear(*given: Any, **options: Any) -> Tensor:
        made = plain_linear(*given, **options)
        calls["linear"] += 1
        if calls["linear"] == 6 and setting.goes_wrong("kernel_of_one_rank", 1):
            made = made.clone()
            made[..., 3] = 0
        return made

    functional.linear = linear
