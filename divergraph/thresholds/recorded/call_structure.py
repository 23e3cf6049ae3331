"""What the device calls otherwise than golden near a call: missing, further and moved calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from divergraph.text.words import counted
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import EXTRA, MISSING, MOVED
from graphstore.model import Op
from importers.msprobe.calls import CallName
from importers.msprobe.job_names import RANK, RANKS, bodies_of, split_rank


def other_calls(pairs: CallPairs, op: Op, *, inside: bool) -> tuple[str, str]:
    """What the device calls otherwise near *op*: within it, or before it where it is called:
    the label and the sentence of a cause, both empty where nothing differs. Of a call that is
    missing the way back is missing as well, which is nothing more."""
    missing = [
        call
        for call in pairs.missing
        if _is_near(call, op, pairs, inside=inside)
        and pairs.missing_names.isdisjoint(CallName.of(call.name).before)
    ]
    kinds = {(call.type, call.subgraph) for call in missing}
    between = _between_ranks(missing, pairs)
    missing = between or [c for c in pairs.missing if (c.type, c.subgraph) in kinds]
    bodies = {op.name} if inside else {op.subgraph}
    extra = [call for call in pairs.extra if call.subgraph in bodies]
    own = _of_this_rank(pairs, op, extra)
    moved = [call for call in pairs.moved if call.subgraph in bodies]
    if missing:
        on = _gradient_text(missing, pairs) or _mean_text(missing[0], pairs)
        return MISSING, f"golden calls {_listed(missing)}{on}, which the device does not"
    if own:
        return EXTRA, f"the device calls {_listed(own)}, which golden does not"
    if extra:  # as the layout of a job may need
        where = "the error starts in one of them, or in what they read"
        return EXTRA, f"all ranks call {_listed(extra)}, which golden does not: {where}"
    if moved:
        return MOVED, f"{_listed(moved)} ran in another order than golden's"
    return "", ""


def calls_of_one_side(pairs: CallPairs) -> str:
    """The calls that only one side makes, wherever they are, as a sentence; "" without any."""
    return "; ".join(
        f"{side} {_listed(calls)}, which {other} does not"
        for side, calls, other in (
            ("golden calls", pairs.missing, "the device"),
            ("the device calls", pairs.extra, "golden"),
        )
        if calls
    )


def _of_this_rank(pairs: CallPairs, op: Op, extra: list[Op]) -> list[Op]:
    """Those of the *extra* calls that other ranks do not have as often in the same body."""
    ranks = {pairs.ops[each].attrs[RANK] for each in pairs.on_ranks.get(split_rank(op.name)[1], ())}
    if not extra or len(ranks) < 2:
        return extra
    body = split_rank(extra[0].subgraph)[1]
    calls = Counter(
        (call.attrs.get(RANK), call.type)
        for call in pairs.extra
        if split_rank(call.subgraph)[1] == body
    )
    return [
        call
        for call in extra
        if calls[call.attrs.get(RANK), call.type] > min(calls[rank, call.type] for rank in ranks)
    ]


def _is_near(missing: Op, op: Op, pairs: CallPairs, *, inside: bool) -> bool:
    twin = pairs.twin(op.id)
    if twin is None:
        return False
    if inside:
        return twin.name in bodies_of(missing)
    takes = {ref.op for ref in twin.takes}
    return missing.id in takes or missing.subgraph == twin.subgraph


def _between_ranks(missing: Sequence[Op], pairs: CallPairs) -> list[Op]:
    """The calls between ranks among the *missing* ones, and those that only such are made of."""
    by_id = {op.id: op for op in pairs.missing}
    waiting, seen = list(missing), {op.id for op in missing}
    found: list[Op] = []
    while waiting:
        op = waiting.pop()
        found += [op] if RANKS in op.attrs else []
        new = {ref.op for ref in op.takes if ref.op in by_id} - seen
        seen |= new
        waiting += [by_id[each] for each in new]
    return found


def _gradient_text(missing: Sequence[Op], pairs: CallPairs) -> str:
    """`` on the gradient of blocks.0.mlp.down``, where a call between ranks was given that."""
    takes = [ref.op for op in missing[:1] if RANKS in op.attrs for ref in op.takes]
    name = pairs.golden_ops[takes[0]].name if takes else ""
    module, way, _ = name.partition(".parameters_grad")
    if not way:
        return ""
    return f" on the gradient of {split_rank(module)[1].partition('.')[2].rpartition('.')[0]}"


def _mean_text(missing: Op, pairs: CallPairs) -> str:
    """That what golden divides is the sum over as many ranks, where it is."""
    source = pairs.golden_ops[missing.takes[0].op] if missing.takes else missing
    group = source.attrs.get(RANKS, ())
    count = len(group) if isinstance(group, tuple) else 0
    if not missing.type.startswith(("div", "__truediv__")) or missing.attrs.get("input.1") != count:
        return ""
    return f" (the mean of {count} ranks: the device has their sum)"


def _listed(ops: Sequence[Op]) -> str:
    kinds = {op.type for op in ops}
    if len(ops) == 1:
        return ops[0].name
    if len(kinds) == 1:
        return f"{ops[0].name} and {counted(len(ops) - 1, 'more call')} of {ops[0].type}"
    return f"{ops[0].name} and {counted(len(ops) - 1, 'more call')}"
