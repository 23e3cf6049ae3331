"""How each op of a run changed since an older run of the model."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from weakref import WeakKeyDictionary

from divergraph.ask.questions.compare_runs import ChangeKind, ChangesQuestion, RunChanges
from graphstore.contract import GraphStore
from graphstore.model import Side
from graphstore.recent import Recent

_CACHE: WeakKeyDictionary[GraphStore, Recent[RunChanges]] = WeakKeyDictionary()
_CACHE_LOCK = Lock()


def changes_since(store: GraphStore, old: str, new: str) -> RunChanges:
    """The changes from run *old* to run *new*, kept until others are asked for.

    Raises:
        UnknownNameError: no such run.
        InputError: the runs have no original tensor in common.
    """
    runs = store.run(old), store.run(new)
    with _CACHE_LOCK:
        recent = _CACHE.setdefault(store, Recent(1))
    return recent.get(
        "\0".join((old, new)),
        lambda: ChangesQuestion(old, new).ask(store),
        lambda answer: (answer.old, answer.new) == runs,
    )


def changed_ops(store: GraphStore, old: str, new: str, side: Side) -> Mapping[str, ChangeKind]:
    """The worst change of each op of run *new* that changed since run *old*. An original changed as
    the outputs did that are held against it, so those that are gone have one, too.

    Raises:
        UnknownNameError: no such run.
        InputError: the runs have no original tensor in common.
    """
    kinds: dict[str, ChangeKind] = {}
    for change in changes_since(store, old, new).changes:  # the worst first
        op = change.op if side is Side.DEVICE else change.golden.rpartition(":")[0]
        if op is not None:
            kinds.setdefault(op, change.kind)
    return kinds
