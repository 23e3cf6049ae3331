"""What is wrong with what a rank gets of a call between ranks, told by what all ranks gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from divergraph.execute.translate.torch.alone import GIVES
from divergraph.execute.translate.torch.collectives import REDUCED, reduction_of
from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Cause, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import SURE
from graphstore.model import Op
from importers.msprobe.collectives import JOINED
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
    rank, operands = _operands(view, op)
    is_sum = op.type in REDUCED
    guesses = _reduced(op, rank, operands, view) if is_sum else _in_order(operands, view)
    part = _wrong_part(view)
    for label, words, predicted in guesses:
        if view.fits(predicted):
            sure, _ = view.told(predicted, view.sure)
            return Cause(label, words, sure, {"left": view.left(predicted)})
        if part is not None and view.fits(predicted, part):
            first, last = np.flatnonzero(part)[[0, -1]]
            where = f"elements {first} to {last} of {part.size} of rank {rank}'s output"
            return Cause(
                label, f"{words}, in {where}", view.sure, {"left": view.left(predicted, part)}
            )
    return None


def _operands(view: SampledTensors, op: Op) -> tuple[int, Mapping[int, Sequence[Floats]]]:
    """The rank whose output is wrong, and what each rank gave."""
    case = view.case
    port = case.port if case.golden_port is None else case.golden_port
    places = op.attrs.get(GIVES, ())
    assert isinstance(places, tuple)
    rank, own_place = split_place(str(places[port]))
    is_list = op.type == f"{JOINED}all_reduce_coalesced"  # each of its tensors for itself
    operands: dict[int, list[Floats]] = {}
    arguments = op.attrs.get(ARGUMENTS, ())
    named = zip(arguments if isinstance(arguments, tuple) else (), op.inputs, strict=False)
    for place, ref in named:
        values = None if ref is None else case.inputs.get(ref.tensor)
        if values is not None:
            giver, giver_place = split_place(str(place))
            if is_list and giver_place.split(".")[1:] != own_place.split(".")[1:]:
                continue
            operands.setdefault(giver, []).append(np.asarray(values, np.float64))
    return rank, operands


def _reduced(
    op: Op, rank: int, operands: Mapping[int, Sequence[Floats]], view: SampledTensors
) -> Iterator[_Guess]:
    shares = _shares(op, rank, operands, view)
    if len(shares) < 2:
        return
    operation, count = reduction_of(op), len(shares)
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


def _shares(
    op: Op, rank: int, operands: Mapping[int, Sequence[Floats]], view: SampledTensors
) -> Mapping[int, Floats]:
    """What each rank gave towards the output of *rank*, sampled as that is."""
    ranks = op.attrs.get(RANKS, ())
    assert isinstance(ranks, tuple)
    place = ranks.index(rank)
    shape = view.case.reference.shape
    found: dict[int, Floats] = {}
    for giver, values in operands.items():
        own = values[place] if len(values) == len(ranks) else values[0]
        if own.shape != shape and own.shape and own.shape[0] % len(ranks) == 0:
            own = np.split(own, len(ranks))[place]
        if own.shape != shape:
            return {}
        found[giver] = view.sample(own)
    return found


def _in_order(operands: Mapping[int, Sequence[Floats]], view: SampledTensors) -> Iterator[_Guess]:
    """The parts of ranks in the order in which they are nearest to what the device has."""
    parts = {rank: values[0] for rank, values in operands.items() if len(values) == 1}
    device = view.case.device
    if len(parts) < 2 or len({each.size for each in parts.values()}) > 1:
        return
    if device.size != sum(each.size for each in parts.values()):
        return
    order = [
        min(parts, key=lambda rank: rms(chunk - parts[rank].reshape(-1)))
        for chunk in np.split(np.asarray(device, np.float64).reshape(-1), len(parts))
    ]
    joined = np.concatenate([parts[rank].reshape(-1) for rank in order]).reshape(device.shape)
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
