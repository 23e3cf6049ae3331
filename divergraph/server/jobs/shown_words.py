"""What was asked for, as those who asked may read it."""

from __future__ import annotations

from divergraph.jobs.background.job_table import QueuedJob
from divergraph.server.roots import Roots


def shown_words(job: QueuedJob, roots: Roots) -> list[str]:
    """The options of *job*, without where this machine keeps what."""
    own = [word for word in job.words[1:] if word != "--json"]
    store = own.index("--store") if "--store" in own else len(own)
    shown = []
    for word in (*own[:store], *placed_words(job)):
        name, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if name == "--inputs":  # NAME=PATH
            of, equals, value = value.rpartition("=")
            sign += of + equals
        shown.append(f"{name}{sign}{roots.shown(value)}" if value else word)
    return shown


def placed_words(job: QueuedJob) -> tuple[str, ...]:
    """The words that have no option, which stand behind the store."""
    words = job.words
    return words[words.index("--store") + 3 :] if "--store" in words else ()
