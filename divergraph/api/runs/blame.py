"""Blame of a run, and the lists of ops to keep in higher precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from divergraph.blame.attribution import Blame
from divergraph.blame.keep_lists import LINES, constants_read
from divergraph.blame.run import BlameChoice, blame_run, with_blame
from divergraph.jobs.progress import Progress
from divergraph.present.declared_answer import answer_json
from divergraph.rootcause.options import RootCauseOptions
from graphstore.contract import RunData
from graphstore.errors import InputError


def blamed(
    data: RunData,
    options: RootCauseOptions,
    choice: BlameChoice,
    progress: Progress,
    others: Sequence[RunData],
) -> tuple[Blame, RunData]:
    """Who made the error of the outputs, and the run with that in its analysis."""
    blame = blame_run(data, options, choice, progress, others)
    printed = replace(blame, shares=blame.shares[: choice.keep])
    names = [other.run.name for other in others]
    return blame, with_blame(data, blame, answer_json(printed, run=data.run.name, others=names))


def keep_list(data: RunData, found: Blame, form: str) -> tuple[str, ...]:
    """The lines of a list in one of the forms.

    Raises:
        InputError: there is no such form, or it cannot name an op.
    """
    if form not in LINES:
        raise InputError(f"no list is called {form!r}", hint=f"one of {', '.join(LINES)}")
    return tuple(LINES[form](data, found.keep))


def halved_constants(data: RunData, found: Blame) -> list[str]:
    """The Constant nodes that a converter turns into float16 although a node of the list reads
    them."""
    return constants_read(data, found.keep)
