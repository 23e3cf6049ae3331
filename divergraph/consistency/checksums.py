"""Calls of which equal inputs make other outputs, told by the checksums of two statistics dumps."""

from __future__ import annotations

from collections.abc import Iterator

from divergraph.consistency.first_ops import finding, first_ops
from divergraph.consistency.repeat import NOT_DETERMINISTIC, RANDOM_TYPES
from divergraph.metrics.statistics import BY_CHECKSUM, CHECKSUMS_DIFFER
from graphstore.contract import RunData
from graphstore.model import Comparison, Finding, TensorIO
from graphstore.traverse.arrays import GraphArrays

_CERTAIN, _UNSEEN = 0.9, 0.5


def first_unequal(data: RunData, arrays: GraphArrays) -> Iterator[Finding]:
    """The first ops whose output has another checksum although no input has."""
    summed = [item for item in data.comparisons if _says(item) is not None]
    outputs = [item for item in summed if item.io is TensorIO.OUTPUT]
    inputs = {item.op: True for item in summed if item.io is TensorIO.INPUT}
    inputs |= {item.op: False for item in summed if item.io is TensorIO.INPUT and not _says(item)}
    other = {item.op: item for item in reversed(outputs) if not _says(item)}
    types = {op.id: op.type for op in data.device.ops}
    is_first = True
    for first in first_ops(arrays, (item.op for item in outputs), other):
        item, kind = other[first.op], types[first.op]
        if not inputs.get(first.op, True) or RANDOM_TYPES.match(kind):
            continue
        is_seen = first.op in inputs
        if not is_seen and not is_first:
            continue  # what it read is not known: most likely what an earlier op made other
        is_first = False
        what = "equal inputs" if is_seen else "inputs that no checksum tells apart"
        yield finding(
            NOT_DETERMINISTIC,
            f"{first.op} ({kind}) is the first that makes other bits of {what} (checksums): if "
            "both sides are the same software on the same device, it is not deterministic",
            (first.op, item.io, item.port),
            _CERTAIN if is_seen else _UNSEEN,
            {"later_ops": first.later, "inputs_equal": is_seen},
        )


def _says(item: Comparison) -> bool | None:
    """Whether checksums call the tensors equal; None where there are none."""
    if item.detail.startswith(BY_CHECKSUM):
        return True
    return False if item.detail.endswith(CHECKSUMS_DIFFER) else None
