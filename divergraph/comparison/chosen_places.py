"""Which ranks and steps a user means, and which of them there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from divergraph.comparison import CompareRequest
from divergraph.comparison.places import RankStep
from graphstore.errors import InputError
from importers.dumps.contract import FoundDump
from importers.dumps.detect import list_dumps

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """Ranks or steps as the user names them; None stands for all there are."""

    numbers: tuple[int, ...] | None

    @classmethod
    def parsed(cls, text: str, option: str) -> Chosen:
        """``all``, or numbers and ranges with commas: ``0,1,4-7``; also with bars, as a dump's own
        configuration has them: ``0|5|10``.

        Raises:
            InputError: it is neither.
        """
        if text.strip() == "all":
            return cls(None)
        numbers: dict[int, None] = {}
        for part in text.replace("|", ",").split(","):
            match = _PART.fullmatch(part.strip())
            first = int(match[1]) if match else 0
            last = int(match[2] or first) if match else -1
            if match is None or last < first or last - first + len(numbers) > _MOST:
                raise InputError(f"{option} {text}: no list of numbers", hint="all, or 0,1,4-7")
            numbers |= dict.fromkeys(range(first, last + 1))
        return cls(tuple(numbers))


def find_places(
    request: CompareRequest, ranks: Chosen | None, steps: Chosen | None
) -> Iterator[RankStep]:
    """The chosen ranks and steps that there are, of the device's dump if it has such
    levels, else of the golden one; without a choice of one level that level stays open.

    Raises:
        InputError: neither dump has such a level, or one of the numbers is not there.
    """
    return places_in(request, ranks, steps, dumps_of(request))


def places_in(
    request: CompareRequest,
    ranks: Chosen | None,
    steps: Chosen | None,
    dumps: Sequence[list[FoundDump]],
) -> Iterator[RankStep]:
    """Those of :func:`find_places`, where the *dumps* are known."""
    by_rank = [dump for dump in dumps if any(dump.rank for dump in dump)]
    by_step = [dump for dump in dumps if any(dump.step for dump in dump)]
    if ranks is None and request.choice.rank is not None:
        ranks = Chosen((request.choice.rank,))
    if steps is None and request.choice.step is not None:
        steps = Chosen((request.choice.step,))
    wanted_ranks = _wanted(ranks, by_rank, "rank")
    wanted_steps = _wanted(steps, by_step, "step")
    both = dumps[0] if dumps[0] in by_rank and dumps[0] in by_step else None
    there = {(int(one.rank), int(one.step)) for one in both or () if one.rank and one.step}
    for rank in wanted_ranks:
        for step in wanted_steps:
            # Ranks may have dumped different steps; of "all" those that are not there are none.
            if both is None or rank is None or step is None or (rank, step) in there:
                yield RankStep(rank, step)


def dumps_of(request: CompareRequest) -> list[list[FoundDump]]:
    """The dumps of the device and of the golden side.

    Raises:
        InputError: one of the folders is not there.
    """
    return [_dumps(path, request) for path in (request.device_dump, request.golden_dump)]


def _dumps(path: Path, request: CompareRequest) -> list[FoundDump]:
    """The dumps below one of the folders, of the time that will be taken."""
    if not path.exists():
        raise InputError("no such folder", where=str(path))
    dumps = list_dumps(path)
    times = {dump.time for dump in dumps}
    time = request.choice.time if request.choice.time in times else max(times, default="")
    return [dump for dump in dumps if dump.time == time]


def _wanted(
    chosen: Chosen | None, dumps: Sequence[Sequence[FoundDump]], level: str
) -> list[int | None]:
    if chosen is None:
        return [None]
    if not dumps:
        raise InputError(
            f"--{level}s: neither dump has {level}s", hint="divergraph dumps lists what there is"
        )
    there = sorted({int(value) for dump in dumps[0] if (value := getattr(dump, level))})
    if chosen.numbers is None:
        return [*there]
    missing = [number for number in chosen.numbers if number not in there]
    if missing:
        raise InputError(
            f"no {level} {missing[0]} in this dump",
            hint=f"its {level}s: {', '.join(map(str, there[:12]))}"
            + (f" and {len(there) - 12} more" if len(there) > 12 else ""),
        )
    return [*chosen.numbers]
