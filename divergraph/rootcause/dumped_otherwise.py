"""Outputs whose dump is not what the ops behind them read.

A buffer may be used again before it is dumped, or be dumped at another moment. Then the op that
made it looks guilty, and each op that read it as well, as it cannot have computed its output from
that dump. Without the dump all of them are healthy: that proves that the values were right when
they were read, since an error made there would be in what the readers made of it. Nothing is wrong
but the dump, so only the op it is of stays guilty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from divergraph.rootcause import calibration
from divergraph.rootcause.run_inputs import RunInputs, Splits
from divergraph.text.words import first_names
from graphstore.model import Comparison, Finding, Guilt, ModelGraph, Reckoning, TensorIO, TensorRef

_Known = TypeVar("_Known")
_About = TypeVar("_About", Finding, Reckoning)


def as_read(
    inputs: RunInputs,
    splits: Splits,
    look: Callable[[Collection[TensorRef], Splits], Splits],
    split: Callable[[RunInputs], Splits],
) -> Splits:
    """*splits*, the splits of *inputs*, with the ops that read other values than were dumped judged
    by what came before.

    *look* makes the splits that are not as found without the dumps of some outputs: no stricter
    than *split*, which makes all splits of other inputs, and is called only where that may help.
    """
    doubted = _doubted(inputs.data.device, splits)
    while 0 < len(doubted) < calibration.GUILTY_EVERYWHERE:
        explained = _explained(doubted, splits, look(doubted, splits))
        if len(explained) == len(doubted):
            new_splits = split(replace(inputs, comparisons=_without(inputs.comparisons, doubted)))
            explained = _explained(doubted, splits, new_splits)
            if len(explained) == len(doubted):
                return _with_doubted(splits, new_splits, explained)
        doubted = explained
    return splits


def _explained(doubted: Sequence[TensorRef], splits: Splits, new_splits: Splits) -> list[TensorRef]:
    """Those of *doubted* without whose dumps, in *new_splits*, all that read them are healthy."""
    return [ref for ref in doubted if all(_healthy(_covering(ref, splits, new_splits), new_splits))]


def _doubted(device: ModelGraph, splits: Splits) -> list[TensorRef]:
    """The guilty outputs, but those of the model, that a guilty op read."""
    guilty = {ref for ref, split in splits.by_output.items() if split.guilt is Guilt.GUILTY}
    read = {source for ref in guilty & splits.groups.keys() for source in _sources(ref, splits)}
    return [ref for ref in splits.by_output if ref in guilty & read and ref not in device.outputs]


def _sources(ref: TensorRef, splits: Splits) -> Sequence[TensorRef]:
    group = splits.groups[ref]
    return group.measured if group.is_passthrough is None else (group.is_passthrough,)


def _without(
    comparisons: Sequence[Comparison], outputs: Collection[TensorRef]
) -> tuple[Comparison, ...]:
    return tuple(
        item
        for item in comparisons
        if item.io is not TensorIO.OUTPUT or TensorRef(item.op, item.port) not in outputs
    )


def _covering(ref: TensorRef, splits: Splits, new_splits: Splits) -> list[TensorRef]:
    """The outputs that, without the dump of *ref*, are judged together with the op that made it."""
    maker = splits.groups[ref].golden.op
    return [output for output, group in new_splits.groups.items() if maker in group.ops]


def _healthy(outputs: Sequence[TensorRef], new_splits: Splits) -> Iterator[bool]:
    """For each of the *outputs* whether it is healthy; nothing is where there are none."""
    yield bool(outputs)
    for output in outputs:
        split = new_splits.by_output[output]
        yield split.suspicion is not None and split.guilt is not Guilt.GUILTY


def _with_doubted(splits: Splits, new_splits: Splits, doubted: Sequence[TensorRef]) -> Splits:
    """*new_splits*, the splits without the dumps of *doubted*, with what was *splits* of these."""
    return replace(
        new_splits,
        by_output={**new_splits.by_output, **_at(splits.by_output, doubted)},
        groups={**new_splits.groups, **_at(splits.groups, doubted)},
        nonfinite={**new_splits.nonfinite, **_at(splits.nonfinite, doubted)},
        assumed={**new_splits.assumed, **_at(splits.assumed, doubted)},
        findings=(*new_splits.findings, *_of(splits.findings, doubted)),
        reckonings=(*new_splits.reckonings, *_of(splits.reckonings, doubted)),
        remarks=(*new_splits.remarks, *(_remark(ref, splits, new_splits) for ref in doubted)),
    )


def _at(
    by_output: Mapping[TensorRef, _Known], outputs: Iterable[TensorRef]
) -> dict[TensorRef, _Known]:
    return {ref: by_output[ref] for ref in outputs if ref in by_output}


def _of(items: Iterable[_About], outputs: Collection[TensorRef]) -> Iterator[_About]:
    return (item for item in items if TensorRef(item.op, item.port) in outputs)


def _remark(ref: TensorRef, splits: Splits, new_splits: Splits) -> str:
    readers = [output.op for output in _covering(ref, splits, new_splits)]
    return (
        f"{ref}: {first_names(readers)} read the right values, so its dump is of "
        "another moment or was overwritten since, and the error goes no further"
    )
