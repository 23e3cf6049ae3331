"""Messages between ranks that no dump has as they came."""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.thresholds.recorded.call_pairs import CallPairs
from graphstore.model import Op, TensorRef
from importers.msprobe.collectives import DO_NOT_WAIT
from importers.msprobe.job_names import BODIES, RANK, SOURCE, TARGET, rank_of_output


def unread_message(pairs: CallPairs, op: Op) -> Op | None:
    """The message with which *op* is to be fed, dumped before it came, so that it is not known what
    came: the first that its module gets and no call reads, else one that *op* or its golden call
    reads; None without one. What was sent is read where it comes, so what nobody reads got lost."""
    rank, twin = op.attrs.get(RANK, op.attrs.get(SOURCE)), pairs.twin(op.id)
    fed = {ref.op for ref in op.takes}
    if twin is not None:
        fed |= {pairs.device_twins.get(ref.op, "") for ref in twin.takes}
    named = None
    for message, ref in _late(pairs):
        if message.attrs.get(TARGET) != rank or message.sequence >= op.sequence:
            continue
        bodies = message.attrs.get(BODIES, ())
        if isinstance(bodies, tuple) and op.subgraph in bodies and not pairs.readers.get(ref):
            return message
        if message.id in fed:
            named = named or message
    return named


def _late(pairs: CallPairs) -> Iterator[tuple[Op, TensorRef]]:
    """The messages whose dump on the rank they go to is none of what came, and that output."""
    for op in pairs.device.ops:
        if op.type not in DO_NOT_WAIT:
            continue
        for item in pairs.outputs.get(op.id, ()):
            if not item.compared and rank_of_output(op, item.port) == op.attrs.get(TARGET):
                yield op, TensorRef(op.id, item.port)
