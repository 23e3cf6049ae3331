"""What calls between ranks keep, whatever the values: checked by the statistics of a dump alone.

A sum over ranks has the sum of their means; what is only passed on, gathered or exchanged keeps its
extremes, sums and norms; all ranks of a group get the same. A broken law convicts the call. A kept
one acquits none: what keeps all of them may be wrong all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from divergraph.execute.translate.torch.received import REDUCED, reduction_of
from divergraph.thresholds.recorded.call_laws import ADDED, Summary, summary_of
from divergraph.thresholds.recorded.laws_of_layers import broken_law
from graphstore.model import DumpTensorRef, ModelGraph, Op, TensorIO
from importers.dumps.index import TensorKey
from importers.msprobe.calls import INFERRED
from importers.msprobe.collectives import GROUP, JOINED, ranks_words
from importers.msprobe.graph import ARGUMENTS
from importers.msprobe.job_names import RANKS, split_place

_ALIKE = 64
"""Elements that may share one rounding: so many values at most err by themselves."""
_DEVIATIONS = 6.0
"""Standard deviations that a mean may be off by. Of 10,000 healthy calls none is further
(benchmarks/recorded_jobs/laws.py)."""
_PASSED = frozenset(f"{JOINED}{name}" for name in ("broadcast", "send", "isend"))
_GATHERED = frozenset(
    f"{JOINED}{name}" for name in ("all_gather", "all_gather_into_tensor", "_all_gather_base")
)
_EXCHANGED = frozenset(f"{JOINED}{name}" for name in ("all_to_all", "all_to_all_single"))


def broken_laws(graph: ModelGraph, tensors: Mapping[TensorKey, DumpTensorRef]) -> dict[str, str]:
    """The calls of *graph* whose statistics among *tensors* break a law, by op, with the sentence
    that says so."""
    sentences: dict[str, str] = {}
    for op in graph.ops:
        sentence = _between_ranks(op, tensors) if RANKS in op.attrs else broken_law(op, tensors)
        if sentence:
            sentences[op.id] = sentence
    return sentences


def _between_ranks(op: Op, tensors: Mapping[TensorKey, DumpTensorRef]) -> str:
    if op.attrs[RANKS] != op.attrs.get(GROUP):
        return ""
    if INFERRED in op.attrs:  # from these very statistics: another gradient's may be as near
        return ""
    operands, results = _sides(op, tensors)
    return next(_broken(op, operands, results), "") if operands and results else ""


def _sides(
    op: Op, tensors: Mapping[TensorKey, DumpTensorRef]
) -> tuple[list[Summary], list[Summary]]:
    """What all ranks give and get; empty where the statistics of one are not all finite."""
    arguments = op.attrs.get(ARGUMENTS, ())
    assert isinstance(arguments, tuple)
    begin = len(f"{op.name}.output.")
    places = (
        (TensorIO.INPUT, [str(place) for place in arguments]),
        (TensorIO.OUTPUT, [tensor.name[begin:] for tensor in op.outputs]),
    )
    sides: list[list[Summary]] = []
    for io, named in places:
        side = [
            summary_of(tensors.get((op.id, io, port)), split_place(place)[0])
            for port, place in enumerate(named)
        ]
        sides.append([summary for summary in side if summary is not None])
        if len(sides[-1]) < len(side):
            return [], []
    return sides[0], sides[1]


def _broken(op: Op, operands: Sequence[Summary], results: Sequence[Summary]) -> Iterator[str]:
    """The laws that are broken, each as a sentence."""
    if op.type == f"{JOINED}all_reduce_coalesced":
        for given, got in zip(_by_rank(operands), _by_rank(results), strict=False):
            yield from _unequal(got)
            yield from _of_reduction(reduction_of(op), given, got)
    elif op.type in REDUCED and not op.type.startswith(f"{JOINED}reduce_s"):
        yield from _unequal(results)
        yield from _of_reduction(reduction_of(op), operands, results)
    elif op.type in _PASSED:
        (source, *_) = operands
        off = [summary.rank for summary in results if summary.mark != source.mark]
        if off:
            yield f"{ranks_words(off)} got another tensor than rank {source.rank} gave"
    elif op.type in _GATHERED:
        if len(results) == len(operands):
            yield from _unequal(results)
            for summary in results:
                yield from _of_parts(operands, [summary], f"rank {summary.rank} got")
        else:
            yield from _of_lists(operands, results)
    elif op.type in _EXCHANGED:
        yield from _of_parts(operands, results, "the ranks got")


def _by_rank(tensors: Sequence[Summary]) -> list[tuple[Summary, ...]]:
    """Lists of ranks by place: what each rank has at the first one, at the second, and so on."""
    ranks: dict[int, list[Summary]] = {}
    for summary in tensors:
        ranks.setdefault(summary.rank, []).append(summary)
    return list(zip(*ranks.values(), strict=False))


def _unequal(results: Sequence[Summary]) -> Iterator[str]:
    """All ranks of a group get the same."""
    marks = Counter(summary.mark for summary in results)
    if len(marks) < 2:
        return
    (usual, most), *_ = marks.most_common()
    if most > len(results) / 2:
        off = [summary.rank for summary in results if summary.mark != usual]
        yield f"{ranks_words(off)} got another result than the {most} others"
    else:
        yield "the ranks got different results, which are equal of such a call"


def _of_lists(operands: Sequence[Summary], results: Sequence[Summary]) -> Iterator[str]:
    """Each rank gets a list of what all gave."""
    for number, result in enumerate(results):
        giver = operands[number % len(operands)]
        if result.mark != giver.mark:
            yield f"rank {result.rank} got another tensor than rank {giver.rank} gave"


def _of_reduction(
    kind: str, operands: Sequence[Summary], results: Sequence[Summary]
) -> Iterator[str]:
    count = len(operands)
    if kind in ("MAX", "MIN"):
        ends = [summary.maximum if kind == "MAX" else summary.minimum for summary in operands]
        wanted = max(ends) if kind == "MAX" else min(ends)
        for summary in results:
            if (summary.maximum if kind == "MAX" else summary.minimum) != wanted:
                yield f"the extreme of rank {summary.rank} is not that of what {count} ranks gave"
    if kind not in ("SUM", "AVG") or operands[0].count != results[0].count:
        return
    share = 1.0 if kind == "SUM" else 1.0 / count
    total = sum(summary.mean for summary in operands)
    allowed = _rounding(operands, results[0].unit) * share
    for summary in results:
        if abs(summary.mean - total * share) <= allowed + summary.written:
            continue
        words = f"the mean of what rank {summary.rank} got, {summary.mean:.4g}, is not"
        right = f"{total * share:.4g} as of the {'sum' if share == 1.0 else 'mean'}"
        other = _instead(summary, operands, total, share, allowed)
        yield f"{words} {right} of {count} ranks{other}"


def _instead(
    result: Summary, operands: Sequence[Summary], total: float, share: float, allowed: float
) -> str:
    """What its mean is that of, if that is the only one that fits. One rank's own values, where
    there are two, are another result than the other's."""
    count = len(operands)
    other = total / count if share == 1.0 else total
    guesses = {f": a ratio of {count}": other}
    if share == 1.0 and count > 2:
        guesses |= {f": without rank {summary.rank}": total - summary.mean for summary in operands}
    fitting = [
        words
        for words, value in guesses.items()
        if abs(result.mean - value) <= allowed + result.written
    ]
    return fitting[0] if len(fitting) == 1 else ""


def _of_parts(operands: Sequence[Summary], results: Sequence[Summary], who: str) -> Iterator[str]:
    """What is gathered or exchanged keeps extremes, sum and norm."""
    count = sum(summary.count for summary in operands)
    if sum(summary.count for summary in results) != count:
        return
    for word, own, theirs in (
        ("largest value", max(e.maximum for e in results), max(e.maximum for e in operands)),
        ("least value", min(e.minimum for e in results), min(e.minimum for e in operands)),
    ):
        if own != theirs:
            values = f"{own:.6g}, is not that of what was given, {theirs:.6g}"
            yield f"the {word} of what {who}, {values}"
    squares = [sum(e.norm**2 for e in side) for side in (results, operands)]
    # A norm is rounded to its type, and its square errs twice as much.
    unit = results[0].unit + ADDED
    allowed = 4 * unit * max(squares) + 2 * results[0].least * math.sqrt(max(squares))
    if abs(squares[0] - squares[1]) > allowed:
        yield f"the norm of what {who} is not that of what was given"
    sums = [sum(e.mean * e.count for e in side) for side in (results, operands)]
    if abs(sums[0] - sums[1]) > sum(e.written * e.count for e in (*results, *operands)):
        yield f"the sum of what {who} is not that of what was given"


def _rounding(operands: Sequence[Summary], unit: float) -> float:
    """By how much the mean of a sum over ranks may be off: each step rounds, by its partial sum at
    most the sum of all sizes, and the statistics are rounded."""
    count, steps = operands[0].count, len(operands) - 1
    coherent = sum(summary.size for summary in operands)
    own = math.sqrt(min(count, _ALIKE))
    written = sum(summary.written for summary in operands)
    return _DEVIATIONS * unit * coherent * math.sqrt(max(steps, 1)) / own + written
