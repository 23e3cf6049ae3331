"""What the last `blame` of a run printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from divergraph.ask.question import Question, RunName
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore
from graphstore.errors import NotDoneError
from graphstore.model import Run


@dataclass(frozen=True, slots=True)
class KeptBlameQuestion(Question[Mapping[str, Any]]):
    """Which ops made the error of the outputs, by the last blame?"""

    name = "blame"
    shapes = ("BlameAnswer",)
    picture: ClassVar[Mapping[str, str]] = {"colour": "blame_share"}

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> Mapping[str, Any]:
        """What ``blame`` printed.

        Raises:
            NotDoneError: nobody has asked that of this run.
        """
        return printed_before("blame", self.run, store.run(self.run).analysis.blamed)


def blame_shares(run: Run | None) -> Mapping[str, float]:
    """The share of each op in the error of the outputs by the last `blame` of *run*, the largest of
    its outputs; empty if nobody has asked."""
    shares: dict[str, float] = {}
    for entry in json.loads(run.analysis.blamed)["shares"] if run and run.analysis.blamed else ():
        op, share = entry["op"], entry["share"]
        if isinstance(share, float | int):
            shares[op] = max(share, shares.get(op, share))
    return shares


def printed_before(command: str, run: str, text: str) -> Mapping[str, Any]:
    """The JSON that *command* printed, kept as *text* with a run that may have another name now.

    Raises:
        NotDoneError: it has not been run; the text is empty.
    """
    if not text:
        hint = f"`divergraph {command} {run}` does; a server runs it as a job"
        raise NotDoneError(f"{command} has not been run on {run!r}", hint=hint)
    return {**json.loads(text), "run": run}


QUESTION = KeptBlameQuestion
