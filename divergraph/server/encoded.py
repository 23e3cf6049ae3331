"""Answers as they were sent, kept by their tags: a run is written once, and so is its answer.

Pages of ops are many, and hold the same ops again and again: of those each op is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_EACH = 250
"""About what Python takes for a kept text, beside its characters."""


@dataclass(frozen=True, slots=True)
class EncodedAnswer:
    """An answer: its body, and a link to what follows it ("" if nothing does)."""

    body: bytes
    link: str = ""


class EncodedAnswers:
    """The answers sent last, *most* bytes of them; none that is larger than an eighth of that."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._answers: OrderedDict[str, EncodedAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, tag: str) -> EncodedAnswer | None:
        """The answer of this tag, if it is here."""
        with self._lock:
            found = self._answers.get(tag)
            if found is not None:
                self._answers.move_to_end(tag)
            return found

    def keep(self, tag: str, answer: EncodedAnswer) -> None:
        """Keep an answer; those asked for longest ago go."""
        if len(answer.body) > self._most // 8:
            return
        with self._lock:
            if tag in self._answers:
                return
            self._answers[tag] = answer
            self._held += len(answer.body)
            while self._held > self._most:
                self._held -= len(self._answers.popitem(last=False)[1].body)


class EncodedOps:
    """The ops listed last as they stand in a document, about *most* bytes of them."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._texts: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def texts(
        self, owner: str, numbers: Sequence[int], make: Callable[[list[int]], list[str]]
    ) -> list[str]:
        """The text of each op, by its number in the graph *owner*; what is not here is made."""
        with self._lock:
            found = {number: self._texts.get((owner, number)) for number in numbers}
        missing = [number for number, text in found.items() if text is None]
        made = dict(zip(missing, make(missing), strict=True)) if missing else {}
        with self._lock:
            for number, text in made.items():
                if (owner, number) not in self._texts:
                    self._texts[owner, number] = text
                    self._held += len(text) + _EACH
            while self._held > self._most:
                self._held -= len(self._texts.popitem(last=False)[1]) + _EACH
        return [found[number] or made[number] for number in numbers]
