"""Files of SGLang's dumper (``sglang.srt.debug_utils.dumper``), of any program that uses it.

Each tensor is a file ``{tag}={value}___{tag}={value}….pt`` in one folder for all steps and ranks:
``step`` (``forward_pass_id`` in early versions), ``rank``, ``dump_index``, which counts the dumps
of a process, ``name``, and what the caller adds, such as ``layer_id``. In it is
``{"value": tensor, "meta": {…}}``, in early versions the tensor alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from importers.contract import Confidence
from importers.dumps.arrays.torch_file import BETWEEN_TAGS, ENDING, read_torch
from importers.dumps.bare.tensor import BareTensor
from importers.dumps.contract import (
    DumpReader,
    FilePlace,
    FoundDump,
    RawForm,
    at_step,
    named_tensor,
)
from importers.dumps.index import list_folder, open_dump

_OF_THE_RUN = ("step", "forward_pass_id", "rank", "dump_index")
_UNTOLD = {"recompute_status": "disabled"}
"""Tags of every file of a run that does not recompute; earlier versions do not have them."""


class SglangReader(DumpReader):
    """One tensor a file; what tells two of one name apart belongs to its name."""

    name = "sglang"
    reads = "folders of SGLang's dumper: step=0___rank=0___dump_index=1___name=x.pt"
    endings = (ENDING,)
    inner_levels = frozenset({"rank", "step"})

    def claims(self, name: str, folder: str) -> Confidence:
        """By the tags every version has."""
        tags = _tags(name) if name.endswith(ENDING) and BETWEEN_TAGS in name else {}
        return Confidence.SURE if {"name", "rank"} <= tags.keys() else Confidence.NO

    def parts(self, dump: FoundDump) -> Iterator[FoundDump]:
        """Once for each step and rank, with the files of these."""
        counts: dict[tuple[int | None, int | None], int] = {}
        for name in self.files_in(list_folder(dump.path)):
            level = _levels(_tags(name))
            counts[level] = counts.get(level, 0) + 1
        for (step, rank), files in sorted(counts.items(), key=lambda item: str(item[0])):
            yield at_step(dump, step, rank, files)

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """The one tensor."""
        with open_dump(place.path) as (fd, size):
            tensor = read_torch(fd, size, "value")
        tags = _tags(place.file)
        step, rank = _levels(tags)
        index = tags.get("dump_index", "")
        yield named_tensor(
            *(place, _name(tags), tensor.dtype, tensor.shape),
            offset=tensor.offset,
            nbytes=tensor.nbytes,
            timestamp=int(index) if index.isdecimal() else 0,
            step=step,
            rank=rank,
            alone=True,
        )


def _tags(name: str) -> dict[str, str]:
    """What the name of a file tells; a part without ``=`` belongs to the value before it."""
    tags: dict[str, str] = {}
    for part in name.removesuffix(ENDING).split(BETWEEN_TAGS):
        tag, equals, value = part.partition("=")
        if equals:
            tags[tag] = value
        elif tags:
            last = next(reversed(tags))
            tags[last] += BETWEEN_TAGS + part
    return tags


def _levels(tags: dict[str, str]) -> tuple[int | None, int | None]:
    """Step and rank."""
    step, rank = tags.get("step", tags.get("forward_pass_id", "")), tags.get("rank", "")
    return (
        int(step) if step.isdecimal() else None,
        int(rank) if rank.isdecimal() else None,
    )


def _name(tags: dict[str, str]) -> str:
    """What the caller calls the tensor: the name, and all tags that are not of the run."""
    more = [
        f"{tag}={value}"
        for tag, value in tags.items()
        if tag != "name" and tag not in _OF_THE_RUN and _UNTOLD.get(tag) != value
    ]
    return BETWEEN_TAGS.join([tags.get("name", ""), *more])
