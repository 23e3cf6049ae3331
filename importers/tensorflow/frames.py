"""Which loop an op of an old graph runs in: the frames that Enter opens and Exit leaves.

Source: the executor's notion of frames, "Implementation of Control Flow in TensorFlow" (2017).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

ENTER = frozenset({"Enter", "RefEnter"})
_EXIT = frozenset({"Exit", "RefExit"})


def frames(
    types: Mapping[str, str], inputs: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> dict[str, str]:
    """The loop each op runs in, ``outer/inner``, for the ops that run in one.

    *types* and *inputs* (data and control) are by op, *names* the frame name of each Enter.
    """
    readers: dict[str, list[str]] = {}
    for op, producers in inputs.items():
        for producer in producers:
            readers.setdefault(producer, []).append(op)
    # What an op gives out lies in its own frame, but Exit gives to the frame around.
    given: dict[str, tuple[str, ...]] = {}
    found: dict[str, str] = {}
    waiting: deque[tuple[str, tuple[str, ...]]] = deque()
    waiting.extend((op, ()) for op in types if not inputs.get(op))
    while waiting:
        op, frame = waiting.popleft()
        if op in given:
            continue
        if types[op] in ENTER:
            frame = (*frame, names.get(op, ""))
        if frame:
            found[op] = "/".join(frame)
        given[op] = frame[:-1] if types[op] in _EXIT else frame
        waiting.extend((reader, given[op]) for reader in readers.get(op, ()))
    return found
