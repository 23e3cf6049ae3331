"""Names of ops made short so that they stay apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_SEPARATOR = re.compile(r"([/.])")
_LAST, _OTHER = 8, 4
"""Letters that stay of a name's last part, and of the others."""
_WAY = 2
"""The last parts of a recorded module, as in ``.forward.0``, which tell least."""
_COMMON = 0.25
"""A part that more of the names have tells none of them apart."""


class ShortNames:
    """Shortens names of a list: first go parts that many of its *names* have, then the ends of
    others, as in ``…/fc4/B…rad/…/control_dependency``, so that what tells names apart stays. Of a
    recorded call with a name of its own the modules around it go first:
    ``….output.LayerNorm.…/Functional.layer_norm.1.forward``."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        listed = [{*_SEPARATOR.split(name)[::2]} for name in names]
        counts = Counter(part for parts in listed for part in parts)
        self._common = {
            part: count for part, count in counts.items() if count > max(1, _COMMON * len(listed))
        }
        self._calls = Counter(map(_call, dict.fromkeys(names)))

    def short(self, name: str, width: int, ellipsis: str = "…") -> str:
        """*name* in at most *width* letters."""
        if len(name) <= width:
            return name
        pieces = _SEPARATOR.split(name)
        parts, separators = pieces[::2], pieces[1::2]
        call = _call(name)
        own = len(_SEPARATOR.split(call)[::2]) if self._calls[call] == 1 else 0
        around = range(len(parts) - own) if own > 1 else range(0)
        before = range(around.stop, len(parts) - 1)
        common = [at for at in before if parts[at] in self._common]
        common.sort(key=lambda at: -self._common[parts[at]])
        others = sorted((at for at in before if at not in common), key=lambda at: -len(parts[at]))
        shown: list[str | None] = [*parts]
        steps = [
            *((at, 0) for at in (*around[-_WAY:], *around[:-_WAY])),
            *((at, 0) for at in common),
            *((at, _OTHER) for at in others),
            (len(parts) - 1, _LAST),
            *((at, 0) for at in others),
        ]
        for at, least in steps:
            over = len(_joined(shown, separators, ellipsis)) - width
            if over <= 0:
                break
            if least:
                shown[at] = cut_in_middle(parts[at], max(least, len(parts[at]) - over), ellipsis)
            elif len(parts[at]) > len(ellipsis) or at in around:
                shown[at] = None
        return cut_in_middle(_joined(shown, separators, ellipsis), width, ellipsis)


def _call(name: str) -> str:
    """What stands behind the last slash."""
    return name.rpartition("/")[2]


def _joined(parts: list[str | None], separators: list[str], ellipsis: str) -> str:
    """The parts with an *ellipsis* for each row of those that are None."""
    text = ""
    for place, part in enumerate(parts):
        if part is None and place and parts[place - 1] is None:
            continue
        separator = separators[place - 1] if place else ""
        text += separator + (ellipsis if part is None else part)
    return text


def cut_in_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """*text* in at most *width* letters: its start says where it belongs, its end what it is, so
    the end has two thirds."""
    if len(text) <= width:
        return text
    room = max(0, width - len(ellipsis))
    head = room // 3
    return text[:head] + ellipsis[:width] + text[len(text) - (room - head) :]
