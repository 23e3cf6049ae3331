"""What was asked for, as those who asked may read it."""

from __future__ import annotations

from divergraph.jobs.background.job_table import QueuedJob
from divergraph.server.roots import Roots


def shown_words(job: QueuedJob, roots: Roots) -> list[str]:
    """The options of *job*, without where this machine keeps what."""
    own = [word for word in job.words[1:] if word != "--json"]
    store = own.index("--store") if "--store" in own else len(own)
    words = []
    for word in (*own[:store], *placed_words(job)):
        name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if name == "--inputs":  # NAME=PATH
            of, equals, value = value.rpartition("=")
            sign += of + equals
        words.append(f"{name}{sign}{roots.shown(value)}" if value else word)
    return words


def subject(job: QueuedJob, roots: Roots) -> str:
    """The run, graph or file *job* is about: what has no option, or the run made, or its model."""
    if placed := placed_words(job):
        return " ".join(map(roots.shown, placed))
    options = dict(
        word.split("=", 1) for word in job.words if word.startswith("--") and "=" in word
    )
    named = next(
        (options[name] for name in ("--run", "--golden", "--device") if name in options), ""
    )
    return roots.shown(named)


def placed_words(job: QueuedJob) -> tuple[str, ...]:
    """The words that have no option, which stand behind the store."""
    words = job.words
    return words[words.index("--store") + 3 :] if "--store" in words else ()
