"""Ops that could not be judged though their definition is known: their inputs are nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from math import prod

from divergraph.execute.translate.ge.table import ROWS
from divergraph.text.words import counted
from graphstore.model import ModelGraph, Tensor
from importers.dumps.index import DumpIndex

_FIXED = ("Const", "Variable", "VarHandle", "ReadVariable", "PlaceHolder")
_NAMED = 3


def unjudged(
    graph: ModelGraph, left_out: Mapping[str, str], unread: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Of the ops that were *left_out*, by id, those that are so for want of inputs: the tensors
    that are *unread*."""
    ops = graph.op_index()
    return {op: unread[op] for op in left_out if unread.get(op) and ops[op].type in ROWS}


def told(graph: ModelGraph, gaps: Mapping[str, tuple[str, ...]]) -> str:
    """What is to be said of these gaps, and what fills them; "" if there are none."""
    if not gaps:
        return ""
    makers = {tensor.name: op for op in graph.ops for tensor in op.outputs}
    sizes = {tensor.name: _size(tensor) for op in graph.ops for tensor in op.outputs}
    reasons = dict.fromkeys(chain.from_iterable(gaps.values()))
    missing = sorted(reasons, key=lambda name: -sizes.get(name, 0))  # weights say more than axes
    fixed = [name for name in missing if name in makers and makers[name].type.startswith(_FIXED)]
    names = ", ".join(missing[:_NAMED]) + (", …" if len(missing) > _NAMED else "")
    hints = []
    if fixed:
        hints.append("give the weights: --om MODEL.om, or --weights DIR with .npy files")
    if len(fixed) < len(missing):
        hints.append("dump inputs, too (dump_mode all)")
    return (
        f"{counted(len(gaps), 'op')}, for want of "
        f"{counted(len(missing), 'tensor')} that nothing holds ({names}); {'; '.join(hints)}"
    )


def unusable(dump: DumpIndex) -> tuple[str, ...]:
    """What is to be said of files that are damaged, or whose names fit several ops."""
    if not dump.problems:
        return ()
    files = len({problem.path for problem in dump.problems})
    first = dump.problems[0]
    return (
        f"{counted(files, 'file')} of {dump.files} not used; {first.path.name}: {first.detail}",
    )


def _size(tensor: Tensor) -> int:
    return prod(size or 1 for size in tensor.shape or ())
