"""Which recorded calls to dump with values next, after a run of statistics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from divergraph.text.words import counted
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import Method, ModelGraph, Op, Side
from importers.msprobe.calls import CallName
from importers.msprobe.job_names import CALLS, ranks_of, split_rank

_MOST = 20
"""Places an error may start at that are dumped next, in order: more is a dump of all again."""
_BEFORE = 200
"""Calls before the first over a limit that are dumped next where statistics tell no start: what
they pass may be wrong."""
_STEP = re.compile(r"step(\d+)")


@dataclass(frozen=True, slots=True)
class NextCalls:
    """What to dump with values next on one side: the ``calls`` by name, on these ``ranks`` (none:
    on all) in these ``steps``."""

    calls: tuple[str, ...]
    ranks: tuple[int, ...]
    steps: tuple[int, ...]


def has_next_calls(data: RunData) -> bool:
    """Whether *data* compares recorded runs that were judged without values, and something in them
    is to be looked at."""
    recorded = data.device.has_guessed_edges and data.golden.has_guessed_edges
    return recorded and data.run.method is Method.THRESHOLDS and any(True for _ in _doubtful(data))


def next_calls(data: RunData, side: Side) -> NextCalls:
    """The calls at which the error of *data* may start, with those that bring their inputs, and of
    a way back its way there; where no start is known, the calls before the first over a limit. A
    call between ranks is dumped on all.

    Raises:
        InputError: *data* does not compare recorded runs, or nothing is over a limit.
    """
    if not (data.device.has_guessed_edges and data.golden.has_guessed_edges):
        raise InputError(
            f"{data.run.name} compares no recorded runs of PyTorch or MindSpore",
            hint="acl-json, estimator and session configure dumps of other runs",
        )
    starts = list(dict.fromkeys(_doubtful(data)))[:_MOST]
    if not starts:
        raise InputError(f"nothing in {data.run.name} is over a limit, so nothing is to be dumped")
    if data.origins or data.suspects:
        chosen = list(_behind(data.device, starts, _BEFORE, depth=1))
    else:
        chosen = list(_behind(data.device, starts[:1], _BEFORE, depth=_BEFORE))
    if side is Side.GOLDEN:
        twins = {link.device: link.original for link in data.links}
        golden = data.golden.op_index()
        chosen = [golden[twins[op.id]] for op in chosen if twins.get(op.id) in golden]
    graph = data.device if side is Side.DEVICE else data.golden
    steps = _STEP.findall("/".join(Path(graph.source).parts[-4:]))
    return NextCalls(
        tuple(dict.fromkeys(name for op in chosen for name in _names(op))),
        tuple(sorted({rank for op in chosen for rank in ranks_of(op)})),
        tuple(int(step) for step in steps[-1:]),
    )


def advice(data: RunData) -> str:
    """What to do next about a run of statistics, as a sentence."""
    calls = next_calls(data, Side.DEVICE)
    on = f" on {counted(len(calls.ranks), 'rank')}" if calls.ranks else ""
    return (
        f"Dump values of {counted(len(calls.calls), 'call')}{on} next, then calls are run again: "
        f"`divergraph dump-config msprobe --run {data.run.name}`, and with `--side golden`"
    )


def _doubtful(data: RunData) -> Iterator[str]:
    """The device calls at which an error may start, the likeliest first."""
    if data.origins or data.suspects:
        yield from (origin.op for origin in (*data.origins, *data.suspects))
        return
    over = {item.op for item in data.comparisons if item.over}
    yield from (op.id for op in data.device.ops if op.id in over)


def _behind(graph: ModelGraph, starts: Sequence[str], most: int, depth: int) -> Iterator[Op]:
    """The calls *starts*, and those that bring what they read, and so on *depth* times: *most*
    calls, in their order."""
    ops, named = graph.op_index(), {op.name: op.id for op in graph.ops}
    chosen = dict.fromkeys(starts)
    front = list(starts)
    for _ in range(depth):
        reached: list[str] = []
        for op in map(ops.__getitem__, front):
            rank, name = split_rank(op.name)
            reached += (named[rank + b] for b in CallName.of(name).before if rank + b in named)
            reached += (ref.op for ref in op.takes)
        front = [each for each in dict.fromkeys(reached) if each not in chosen]
        front = front[: most - len(chosen)]
        if not front:
            break
        chosen |= dict.fromkeys(front)
    return (op for op in graph.ops if op.id in chosen)


def _names(op: Op) -> tuple[str, ...]:
    """The names of the calls that *op* is, as a rank has them."""
    calls = op.attrs.get(CALLS)
    return tuple(map(str, calls)) if isinstance(calls, tuple) else (split_rank(op.name)[1],)
