"""What a device's logs say of the ops of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphstore.contract import GraphStore
from importers.device_log import DeviceLog, LogEvent, LossScale, read_logs
from importers.dumps.names import written

_PLACE = re.compile(r"^-?\d+_\d+_\d+_(?=[A-Za-z])")
"""What stands before the op in the names of kernels in error messages."""
_KERNEL_ENDS = ("__kernel", "_mix_aic", "_mix_aiv")


@dataclass(frozen=True, slots=True)
class LoggedOp:
    """An op and the messages that name it or its kernel."""

    op: str
    events: tuple[LogEvent, ...]


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """The messages by op, in the order they first name it; ``others`` name none that is known.

    ``scales`` are the loss scales printed one after the other; ``halved`` those lower than the
    one before: steps that overflowed.
    """

    files: int
    ops: tuple[LoggedOp, ...]
    others: tuple[LogEvent, ...]
    scales: tuple[LossScale, ...]

    @property
    def halved(self) -> tuple[LossScale, ...]:
        """Each scale that is lower than the one before it in the same file."""
        pairs = zip(self.scales, self.scales[1:], strict=False)
        return tuple(new for old, new in pairs if new.path == old.path and new.value < old.value)


def device_logs(store: GraphStore | None, target: str | None, paths: Iterable[Path]) -> LogAnswer:
    """What the logs at *paths* say, tied to the ops of a run or graph if there is one.

    Raises:
        InputError: a path holds no log.
        UnknownNameError: no such run or graph.
    """
    op_of = {} if store is None or target is None else _names(store, target)
    return _sorted(read_logs(list(paths)), op_of)


def _sorted(log: DeviceLog, op_of: Mapping[str, str]) -> LogAnswer:
    by_op: dict[str, list[LogEvent]] = {}
    others = []
    for event in log.events:
        ops = dict.fromkeys(op for name in event.names if (op := _op(name, op_of)) is not None)
        for op in ops:
            by_op.setdefault(op, []).append(event)
        if not ops:
            others.append(event)
    ops_said = tuple(LoggedOp(op, tuple(events)) for op, events in by_op.items())
    return LogAnswer(log.files, ops_said, tuple(others), log.scales)


def _op(name: str, op_of: Mapping[str, str]) -> str | None:
    for ending in _KERNEL_ENDS:
        name = _PLACE.sub("", name.partition(ending)[0])
    return op_of.get(name) or op_of.get(written(name))


def _names(store: GraphStore, target: str) -> dict[str, str]:
    """The ops by whatever a log may call them: id, name, name as in dumps, original, kernel."""
    ids = store.arrays(target).ids
    ops = store.ops(target, ids)
    op_of: dict[str, str] = {}
    for op_id, op in ops.items():
        for name in op.original_names or ():
            op_of.setdefault(name, op_id)
        for attribute, value in op.attrs.items():
            if attribute.endswith("kernelname"):
                op_of.setdefault(str(value).partition(_KERNEL_ENDS[0])[0], op_id)
    for op_id, op in ops.items():  # an op's own name counts more than what it was made of
        op_of |= {written(op.name): op_id, op.name: op_id, op_id: op_id}
    return op_of
