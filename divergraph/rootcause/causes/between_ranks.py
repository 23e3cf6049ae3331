"""What is wrong with what a rank gets of a call between ranks, told by what all ranks gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.torch.alone import GIVES
from divergraph.execute.translate.torch.received import BetweenRanks, NotReceivedError, texts
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import SURE
from graphstore.model import Op
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANKS, split_place

_Guess = tuple[str, str, Floats]
"""A label, words and the values that the device would have."""


def between_ranks(view: SampledTensors) -> Cause | None:
    """The device has what another reduction, fewer ranks or another order of them give, in all of
    the output or in the part of it that is wrong."""
    op = view.case.ops[-1] if view.case.ops else None
    if op is None or RANKS not in op.attrs or not view.visible:
        return None
    given = _given(view, op)
    if given is None:
        return None
    guesses = _reduced(given, view) if given.reduction else _in_order(given, view)
    part = _wrong_part(view)
    for label, words, predicted in guesses:
        if view.fits(predicted):
            sure, _ = view.told(predicted, view.sure)
            return Cause(label, words, sure, {"left": view.left(predicted)})
        if part is not None and view.fits(predicted, part):
            first, last = np.flatnonzero(part)[[0, -1]]
            where = f"elements {first} to {last} of {part.size} of rank {given.rank}'s output"
            return Cause(
                label, f"{words}, in {where}", view.sure, {"left": view.left(predicted, part)}
            )
    return None


@dataclass(frozen=True, slots=True)
class _Given:
    """What each rank gave towards the output of ``rank``, and how it is to be reduced; it is put
    in order where ``reduction`` is empty."""

    rank: int
    by_rank: Mapping[int, Floats]
    reduction: str


def _given(view: SampledTensors, op: Op) -> _Given | None:
    case = view.case
    port = case.port if case.golden_port is None else case.golden_port
    values = [None if ref is None else case.inputs.get(ref.tensor) for ref in op.inputs]
    place = texts(op.attrs.get(GIVES))[port]

    def shape(at: int) -> tuple[int, ...] | None:
        own = values[at]
        return None if own is None else own.shape

    try:
        received = BetweenRanks(op, shape).received(place)
    except NotReceivedError:
        return None
    arguments = texts(op.attrs.get(ARGUMENTS))
    by_rank: dict[int, Floats] = {}
    for part in received.parts:
        own = values[part.port]
        if own is None:
            return None
        rows = slice(None) if part.rows is None else slice(*part.rows)
        giver, _ = split_place(arguments[part.port])
        by_rank[giver] = np.asarray(own if part.rows is None else own[rows], np.float64)
    return _Given(split_place(place)[0], by_rank, received.reduction)


def _reduced(given: _Given, view: SampledTensors) -> Iterator[_Guess]:
    if any(values.shape != view.case.reference.shape for values in given.by_rank.values()):
        return
    shares = {giver: view.sample(values) for giver, values in given.by_rank.items()}
    if len(shares) < 2:
        return
    rank, operation, count = given.rank, given.reduction, len(shares)
    stacked = np.stack(list(shares.values()))
    total = stacked.sum(0)
    reductions = {
        "SUM": ("sum", total),
        "AVG": ("mean", total / count),
        "MAX": ("largest", stacked.max(0)),
        "MIN": ("least", stacked.min(0)),
        "PRODUCT": ("product", stacked.prod(0)),
    }
    for kind, (word, values) in reductions.items():
        if kind != operation:
            ratio = f": a ratio of {count}" if {kind, operation} == {"SUM", "AVG"} else ""
            golden = f"golden the {reductions[operation][0]}{ratio}"
            yield (
                "other_reduction",
                f"it is the {word} of what {count} ranks gave, {golden}",
                values,
            )
    if operation not in ("SUM", "AVG"):
        return
    parts = count if operation == "AVG" else 1
    if rank in shares:
        own_values = f"rank {rank} has what it gave itself: nothing of the other ranks was added"
        yield "rank_missing", own_values, shares[rank]
    for each, values in shares.items():
        yield "rank_missing", f"what rank {each} gave is missing", (total - values) / parts
        yield "rank_twice", f"what rank {each} gave is in it twice", (total + values) / parts


def _in_order(given: _Given, view: SampledTensors) -> Iterator[_Guess]:
    """The parts of ranks in the order in which they are nearest to what the device has."""
    parts = {rank: values.reshape(-1) for rank, values in given.by_rank.items()}
    device = np.asarray(view.case.device, np.float64)
    if len(parts) < 2 or device.size != sum(part.size for part in parts.values()):
        return
    is_equal = len({part.size for part in parts.values()}) == 1
    rest, left, order = device.reshape(-1), dict(parts), list[int]()
    while rest.size:
        fitting = [rank for rank, part in left.items() if 0 < part.size <= rest.size]
        nearest = min(fitting, key=lambda rank: rms(rest[: left[rank].size] - left[rank]))
        order.append(nearest)
        rest = rest[left[nearest].size :]
        if not is_equal:  # of equal ones one may be there twice
            del left[nearest]
    joined = np.concatenate([parts[rank] for rank in order]).reshape(device.shape)
    words = f"the parts are those of ranks {_listed(order)}, golden's those of {_listed(parts)}"
    yield "ranks_reordered", words, view.sample(joined)


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, ranks))


def _wrong_part(view: SampledTensors) -> Mask | None:
    """The run of elements from the first to the last that is wrong, where that is not all of
    them."""
    if view.sampled:
        return None
    wrong = np.flatnonzero(view.wrong)
    if not wrong.size:
        return None
    part = np.zeros(view.d.size, np.bool_)
    part[wrong[0] : wrong[-1] + 1] = True
    return None if part.all() else part.reshape(view.d.shape)


CAUSES = (
    CauseRule(
        between_ranks,
        CauseStage.MISSING,
        2,
        dict.fromkeys(("other_reduction", "rank_missing", "rank_twice", "ranks_reordered"), SURE),
    ),
)
