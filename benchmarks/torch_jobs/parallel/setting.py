"""What a job of several ranks is: its sizes, how it is split, what goes wrong in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import distributed

KINDS = {
    "experts": "experts on ranks of their own, the data split over all",
    "zigzag": "the sequence split in zigzag order, keys and values gathered",
    "ring": "the sequence split, keys and values passed from rank to rank",
    "shards": "flat shards of each parameter, gathered before the step, gradients scattered",
    "fsdp2": "fully_shard of each block and of the model",
    "tensor": "rows or columns of weights on two ranks, the data split over the pairs",
    "stages": "a pipeline of as many stages as ranks, with micro batches",
    "ddp": "copies of the model, wrapped by DistributedDataParallel",
}
Tensor = torch.Tensor


@dataclass(frozen=True)
class Setting:
    """One rank of a job of ``count`` ranks. ``seed`` decides the sizes as well."""

    kind: str
    count: int
    rank: int
    seed: int
    fault: str = "none"
    step: int = 0

    @property
    def width(self) -> int:
        return (24, 32, 40)[self.seed % 3]

    @property
    def blocks(self) -> int:
        return 4 if self.kind == "stages" else 2 + self.seed % 2

    @property
    def words(self) -> int:
        return 40 + 8 * (self.seed % 4)

    heads, length, batch, experts = 4, 16, 4, 4

    @property
    def chosen(self) -> int:
        """To how many experts a word goes."""
        return 1 + self.seed % 2

    def split(self, *kinds: str) -> int:
        """Over how many ranks something is split, if the job is of one of these *kinds*."""
        return self.count if self.kind in kinds else 1

    @property
    def pair(self) -> int:
        """Over how many ranks weights are split."""
        return 2 if self.kind == "tensor" and self.count > 1 else 1

    @property
    def stages(self) -> int:
        return self.split("stages")

    @property
    def micro_batches(self) -> int:
        return 2 if self.stages > 1 else 1

    @property
    def copies(self) -> int:
        """How many ranks, or pairs of them, read parts of the batch."""
        if self.kind in ("zigzag", "ring", "stages"):
            return 1
        return self.count // self.pair

    def goes_wrong(self, fault: str, *ranks: int) -> bool:
        """Whether this is the *fault*, and this rank among *ranks*; without ranks the last one."""
        return self.fault == fault and self.rank in (ranks or (self.count - 1,))

    # groups of ranks

    @cached_property
    def pairs(self) -> distributed.ProcessGroup | None:
        """The ranks that hold parts of the same weights."""
        return self._mine(
            [range(first, first + self.pair) for first in range(0, self.count, self.pair)]
        )

    @cached_property
    def same_weights(self) -> distributed.ProcessGroup | None:
        """The ranks that hold the same weights."""
        return self._mine([range(first, self.count, self.pair) for first in range(self.pair)])

    @cached_property
    def all_but_last(self) -> distributed.ProcessGroup | None:
        return self._mine([range(self.count - 1)])

    def _mine(self, groups: Sequence[range]) -> distributed.ProcessGroup | None:
        mine = None
        for ranks in groups if self.count > 1 else ():
            group = distributed.new_group(list(ranks))
            mine = group if self.rank in ranks else mine
        return mine

    # places of a sequence

    def places(self, rank: int | None = None) -> Tensor:
        """The places of the sequence that *rank* has, this one for None."""
        rank = self.rank if rank is None else rank
        count = self.split("zigzag", "ring")
        if count == 1:
            return torch.arange(self.length)
        if self.kind == "ring":
            return torch.arange(self.length).chunk(count)[rank]
        size = self.length // (2 * count)
        ends = torch.arange(rank * size, (rank + 1) * size)
        return torch.cat([ends, self.length - 1 - ends.flip(0)])

    def gathered_places(self) -> Tensor:
        """The places as ranks gather them."""
        count = self.split("zigzag", "ring")
        return torch.cat([self.places(rank) for rank in range(count)])
