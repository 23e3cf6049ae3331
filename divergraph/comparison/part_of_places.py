"""Some places of a comparison as a job of their own, for the one that a server was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace

from divergraph.comparison import CompareRequest
from divergraph.comparison.chosen_places import dumps_of
from divergraph.comparison.places import ComparePlace, RankStep, part_journal
from divergraph.jobs.background.own_process import own_folder
from divergraph.jobs.job import Job
from divergraph.jobs.progress import Progress
from divergraph.jobs.queue_executor import ItemForm, own_part
from divergraph.metrics.pairs.many_pairs import Workers
from importers.dumps.contract import FoundDump


def form_of_places(request: CompareRequest, dumps: Sequence[FoundDump]) -> ItemForm:
    """How places of *request* and their runs travel between jobs."""
    return ItemForm(astuple, lambda places, folder: part_journal(request, places, dumps, folder))


def compare_part(request: CompareRequest, progress: Progress) -> bool:
    """Compare the places this process was given for another job, which keeps their runs; False if
    it was given none.

    Raises:
        InputError: no such dumps.
    """
    part, folder = own_part(), own_folder()
    if part is None or folder is None:
        return False
    places = [RankStep(*values) for values in part]
    dumps = [dump for side in dumps_of(request) for dump in side]
    # a job of a server is one process of its limit
    alone = replace(request, workers=Workers(jobs=1, resume=False))
    journal = part_journal(request, places, dumps, folder)
    progress.stage("comparing ranks and steps", len(places))
    job = Job(places, ComparePlace(alone, "part"), [0] * len(places), journal=journal, alone=True)
    for _ in job.results():
        progress.step()
    return True
