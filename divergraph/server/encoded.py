"""Answers as they were sent, kept by their tags: a run is written once, and so is its answer."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass


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
