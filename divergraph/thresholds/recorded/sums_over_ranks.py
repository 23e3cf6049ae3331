"""Sums over ranks that differ from golden's though every call is right by its own definition: where
golden has the mean, of which it has the sum, or that are missing before a product."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from divergraph.execute.translate.torch.received import REDUCED
from divergraph.text.words import counted
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import REDUCTION
from graphstore.model import Comparison, Finding, FindingKind, Op, Reason, TensorIO
from importers.msprobe.job_names import RANK, RANKS

_PRODUCTS = ("__mul__", "__rmul__", "__imul__", "mul", "mul_", "multiply")
_PARALLEL = 0.95
"""The cosine from which a gradient in 16 bits is golden's times a number."""
_NEAR = 0.1
"""How far that number may be from the number of ranks, as a share of it."""


def scaled_reductions(pairs: CallPairs) -> Iterator[Finding]:
    """The reductions of the device that are scaled so, each with its cause."""
    for op in pairs.device.ops:
        if RANKS in op.attrs and op.type in REDUCED:
            outputs = pairs.outputs.get(op.id, ())
            sentence = times_golden(op, [each for each in outputs if not pairs.is_of_device(each)])
            if sentence:
                yield Finding(
                    FindingKind.CAUSE, REDUCTION, sentence, op.id, TensorIO.OUTPUT, 0, 0.9
                )


def times_golden(op: Op, outputs: Sequence[Comparison]) -> str:
    """The number of ranks by which all compared *outputs* of *op* are too large, or too small, in
    words; empty where they are not."""
    ranks = op.attrs.get(RANKS)
    count = len(ranks) if isinstance(ranks, tuple) else 1
    ratios = [_ratio(item) for item in outputs if item.metrics is not None]
    if count < 2 or not ratios:
        return ""
    if all(abs(ratio / count - 1.0) <= _NEAR for ratio in ratios):
        return f"{count} times golden's: {counted(count, 'rank')} are added up, golden has the mean"
    if all(abs(ratio * count - 1.0) <= _NEAR for ratio in ratios):
        return f"1/{count} of golden's: the mean over {counted(count, 'rank')}, golden has the sum"
    return ""


def _ratio(item: Comparison) -> float:
    """The norm of a tensor over that of golden's; 0 of one that is not golden's times a number."""
    assert item.metrics is not None
    cosine, error = item.metrics.cosine_similarity, item.metrics.relative_euclidean_distance
    if not (cosine >= _PARALLEL and math.isfinite(error)):
        return 0.0
    # |d - g|^2 / |g|^2 = ratio^2 - 2 ratio cosine + 1
    root = math.sqrt(max(cosine**2 - 1.0 + error**2, 0.0))
    larger, smaller = cosine + root, cosine - root
    figures = item.figures
    grows = figures is None or figures.device.std >= figures.golden.std
    return larger if grows else smaller


def multiplied_addends(pairs: CallPairs) -> Iterator[Finding]:
    """That ranks of the device multiply two addends, at the first module that does. A product of
    sums is no sum of products: unlike what other calls make of addends, that is never golden's.

    Nothing such a call reads or makes is compared, so what is named is the module around it.
    """
    products = [
        (op, around)
        for op in pairs.device.ops
        if RANK in op.attrs and op.type in _PRODUCTS and _reads_addends(pairs, op)
        if (around := next((each for each in pairs.around(op.id) if _is_made(pairs, each)), ""))
    ]
    for op, around in products[:1]:
        others = f", at {counted(len(products) - 1, 'more call')} likewise" if products[1:] else ""
        sentence = (
            f"{op.name} multiplies two tensors that are sums over ranks in golden, and this rank "
            f"has its addend of each{others}: a sum over ranks (all_reduce) of one is missing"
        )
        yield Finding(FindingKind.CAUSE, REDUCTION, sentence, around, TensorIO.OUTPUT, 0, 0.9)


def _reads_addends(pairs: CallPairs, op: Op) -> bool:
    addends = {
        op.inputs[item.port]
        for item in pairs.inputs.get(op.id, ())
        if item.reason is Reason.ADDEND and item.port < len(op.inputs)
    }
    return len(addends) > 1


def _is_made(pairs: CallPairs, op: str) -> bool:
    """Whether what *op* makes was compared."""
    return any(item.compared for item in pairs.outputs.get(op, ()))
