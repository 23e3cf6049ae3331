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
from graphstore.model import (
    Comparison,
    Finding,
    Guilt,
    ModelGraph,
    Reckoning,
    TensorIO,
    TensorRef,
)

_NAMED = 3
_Known = TypeVar("_Known")
_About = TypeVar("_About", Finding, Reckoning)


def as_read(
    inputs: RunInputs,
    found: Splits,
    look: Callable[[Collection[TensorRef], Splits], Splits],
    split: Callable[[RunInputs], Splits],
) -> Splits:
    """*found*, the splits of *inputs*, with the ops that read other values than were dumped judged
    by what came before.

    *look* makes the splits that are not as found without the dumps of some outputs: no stricter
    than *split*, which makes all splits of other inputs, and is called only where that may help.
    """
    doubted = _doubted(inputs.data.device, found)
    while 0 < len(doubted) < calibration.GUILTY_EVERYWHERE:
        explained = _explained(doubted, found, look(doubted, found))
        if len(explained) == len(doubted):
            made = split(replace(inputs, comparisons=_without(inputs.comparisons, doubted)))
            explained = _explained(doubted, found, made)
            if len(explained) == len(doubted):
                return _with_doubted(found, made, explained)
        doubted = explained
    return found


def _explained(doubted: Sequence[TensorRef], found: Splits, made: Splits) -> list[TensorRef]:
    """Those of *doubted* without whose dumps, as *made* has it, all are healthy that read them."""
    return [ref for ref in doubted if all(_healthy(_covering(ref, found, made), made))]


def _doubted(device: ModelGraph, found: Splits) -> list[TensorRef]:
    """The guilty outputs, but those of the model, that a guilty op read."""
    guilty = {ref for ref, each in found.by_output.items() if each.guilt is Guilt.GUILTY}
    read = {source for ref in guilty & found.groups.keys() for source in _sources(ref, found)}
    return [ref for ref in found.by_output if ref in guilty & read and ref not in device.outputs]


def _sources(ref: TensorRef, found: Splits) -> Sequence[TensorRef]:
    group = found.groups[ref]
    return group.measured if group.is_passthrough is None else (group.is_passthrough,)


def _without(
    comparisons: Sequence[Comparison], outputs: Collection[TensorRef]
) -> tuple[Comparison, ...]:
    return tuple(
        item
        for item in comparisons
        if item.io is not TensorIO.OUTPUT or TensorRef(item.op, item.port) not in outputs
    )


def _covering(ref: TensorRef, found: Splits, made: Splits) -> list[TensorRef]:
    """The outputs that, without the dump of *ref*, are judged together with the op that made it."""
    maker = found.groups[ref].golden.op
    return [output for output, group in made.groups.items() if maker in group.ops]


def _healthy(outputs: Sequence[TensorRef], made: Splits) -> Iterator[bool]:
    """For each of the *outputs* whether it is healthy; nothing is where there are none."""
    yield bool(outputs)
    for each in outputs:
        split = made.by_output[each]
        yield split.suspicion is not None and split.guilt is not Guilt.GUILTY


def _with_doubted(found: Splits, made: Splits, doubted: Sequence[TensorRef]) -> Splits:
    """*made*, the splits without the dumps of *doubted*, with what was *found* of these."""
    return replace(
        made,
        by_output={**made.by_output, **_at(found.by_output, doubted)},
        groups={**made.groups, **_at(found.groups, doubted)},
        nonfinite={**made.nonfinite, **_at(found.nonfinite, doubted)},
        assumed={**made.assumed, **_at(found.assumed, doubted)},
        findings=(*made.findings, *_of(found.findings, doubted)),
        reckonings=(*made.reckonings, *_of(found.reckonings, doubted)),
        remarks=(*made.remarks, *(_remark(ref, found, made) for ref in doubted)),
    )


def _at(found: Mapping[TensorRef, _Known], outputs: Iterable[TensorRef]) -> dict[TensorRef, _Known]:
    return {ref: found[ref] for ref in outputs if ref in found}


def _of(items: Iterable[_About], outputs: Collection[TensorRef]) -> Iterator[_About]:
    return (each for each in items if TensorRef(each.op, each.port) in outputs)


def _remark(ref: TensorRef, found: Splits, made: Splits) -> str:
    readers = [each.op for each in _covering(ref, found, made)]
    more = f" and {len(readers) - _NAMED} more" if len(readers) > _NAMED else ""
    return (
        f"{ref}: {', '.join(readers[:_NAMED])}{more} read the right values, so its dump is of "
        "another moment or was overwritten since, and the error goes no further"
    )
