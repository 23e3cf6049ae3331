"""Notes and baselines go with the runs of their models, from store to store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from graphstore.contract import GraphStore
from graphstore.model import Baseline, Note


def keep_memory(
    store: GraphStore, notes: Iterable[Note], baselines: Iterable[Baseline], runs: Mapping[str, str]
) -> None:
    """Keep in *store* what is said of the models of *runs*: (name in the source, name here).

    Of two versions of a note the one written last stays; a baseline that is there stays, too.
    """
    models = {run.name: run.golden for run in store.runs()}
    there = {new: models[new] for new in runs.values() if new in models}
    notes_there = {note.id: note for note in store.notes()}
    for note in notes:
        before = notes_there.get(note.id)
        newer = before is None or before.changed < note.changed
        if note.model in there.values() and newer:
            store.keep_note(note)
    models_before = {baseline.model for baseline in store.baselines()}
    for baseline in baselines:
        new = runs.get(baseline.run)
        if new in there and baseline.model not in models_before:
            store.keep_baseline(replace(baseline, run=new))


def copy_memory(source: GraphStore, target: GraphStore, runs: Mapping[str, str]) -> None:
    """As :func:`keep_memory`, of what *source* says."""
    if runs:
        keep_memory(target, source.notes(), source.baselines(), runs)
