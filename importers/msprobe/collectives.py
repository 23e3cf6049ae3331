"""The calls between ranks: which arguments they read and write, and on which ranks.

PyTorch's collectives write into arguments, so msprobe dumps of each call the arguments before and
after it: ``output.1`` is the second argument as the call left it. Arguments that are only written
hold nothing before, and on ranks but the root some are left as they are. What is neither read nor
written here is no input or output of the joined op.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

KIND = "Distributed"
"""The kind of calls between ranks."""
GROUP = "input.group"
"""The attribute with the ranks of a call's group, all of the job where the call names none."""
JOINED = "dist."
"""What begins the type of an op between ranks: ``dist.gather`` is none of ``torch.gather``."""
SENDS, RECEIVES, BATCH = ("send", "isend"), ("recv", "irecv"), "batch_isend_irecv"
DO_NOT_WAIT = tuple(f"{JOINED}{name}" for name in (SENDS[1], RECEIVES[1], BATCH))
"""Types of messages whose receiver goes on before they have come."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument by its place and its keyword; ``at_root`` is one of the root rank alone."""

    place: int
    keyword: str
    at_root: bool = False


@dataclass(frozen=True, slots=True)
class Collective:
    """A kind of call: its ``names``, what it reads and writes, and where it has a ``root``, the
    argument that names that rank. ``sizes`` are arguments that say how many rows go where: they
    follow from data, as from what a router of experts chose.

    Names and places of arguments are those of ``torch.distributed``'s functions.
    """

    names: tuple[str, ...]
    reads: Argument
    writes: Argument
    root: Argument | None = None
    sizes: tuple[Argument, ...] = ()


COLLECTIVES = (
    Collective(("all_reduce",), Argument(0, "tensor"), Argument(0, "tensor")),
    Collective(("all_reduce_coalesced",), Argument(0, "tensors"), Argument(0, "tensors")),
    Collective(("reduce",), Argument(0, "tensor"), Argument(0, "tensor", True), Argument(1, "dst")),
    Collective(
        ("broadcast",), Argument(0, "tensor", True), Argument(0, "tensor"), Argument(1, "src")
    ),
    Collective(("all_gather",), Argument(1, "tensor"), Argument(0, "tensor_list")),
    Collective(
        ("all_gather_into_tensor", "_all_gather_base"),
        Argument(1, "input_tensor"),
        Argument(0, "output_tensor"),
    ),
    Collective(("reduce_scatter",), Argument(1, "input_list"), Argument(0, "output")),
    Collective(
        ("reduce_scatter_tensor", "_reduce_scatter_base"),
        Argument(1, "input"),
        Argument(0, "output"),
    ),
    Collective(
        ("all_to_all",), Argument(1, "input_tensor_list"), Argument(0, "output_tensor_list")
    ),
    Collective(
        ("all_to_all_single",),
        Argument(1, "input"),
        Argument(0, "output"),
        sizes=(Argument(2, "output_split_sizes"), Argument(3, "input_split_sizes")),
    ),
    Collective(
        ("scatter",), Argument(1, "scatter_list", True), Argument(0, "tensor"), Argument(2, "src")
    ),
    Collective(
        ("gather",), Argument(0, "tensor"), Argument(1, "gather_list", True), Argument(2, "dst")
    ),
    Collective(SENDS, Argument(0, "tensor"), Argument(0, "tensor")),
    Collective(RECEIVES, Argument(-1, ""), Argument(0, "tensor")),
)
BY_NAME: Mapping[str, Collective] = {name: each for each in COLLECTIVES for name in each.names}


def is_read(kind: str, place: str, *, at_root: bool) -> bool:
    """Whether a call of *kind* reads its argument at *place*: ``0``, ``1.2`` of a list or a
    keyword; *at_root* says whether the rank is the root."""
    collective = BY_NAME.get(kind)
    if collective is None:
        return True
    head = place.partition(".")[0]
    is_it = head in (str(collective.reads.place), collective.reads.keyword)
    return is_it and (at_root or not collective.reads.at_root)


def is_written(kind: str, place: str, *, at_root: bool) -> bool:
    """Whether it writes the argument that the dump has as output *place*: keywords, too, are
    numbered there."""
    collective = BY_NAME.get(kind)
    if collective is None:
        return True
    is_it = place.partition(".")[0] == str(collective.writes.place)
    return is_it and (at_root or not collective.writes.at_root)


def ranks_text(ranks: Iterable[int]) -> str:
    """*ranks* as names of ops have them: ``ranks0-3``, ``ranks0-6:2`` in steps of two, else
    ``ranks0,1,5``."""
    numbers = sorted(ranks)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    if (len(numbers) > 2 or step == 1) and numbers == list(
        range(numbers[0], numbers[-1] + 1, step)
    ):
        return f"ranks{numbers[0]}-{numbers[-1]}" + (f":{step}" if step > 1 else "")
    return f"ranks{','.join(map(str, numbers))}"


def ranks_words(ranks: Iterable[int]) -> str:
    """*ranks* in a sentence: ``rank 1``, ``ranks 0-3``."""
    text = ranks_text(ranks).removeprefix("ranks")
    return f"rank {text}" if text.isdecimal() else f"ranks {text}"
