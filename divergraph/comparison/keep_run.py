"""Make a run and keep it: what ``compare``, ``analyse`` and ``demo`` do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from divergraph.comparison import CompareRequest, compare
from divergraph.comparison.again import analysed_again
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.options import DEFAULT_OPTIONS, RootCauseOptions
from graphstore.contract import GraphStore, RunData
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError, NameTakenError
from graphstore.model import Verdict

_FRESH = re.compile(r"run-(\d+)")


def fresh_name(store: GraphStore) -> str:
    """The next free name of the form ``run-N``."""
    names = [run.name for run in store.runs()] + [info.name for info in store.graphs()]
    numbers = [int(match[1]) for name in names if (match := _FRESH.fullmatch(name))]
    return f"run-{max(numbers, default=0) + 1}"


def check_name_free(store: GraphStore, name: str, *, replace_it: bool) -> None:
    """Refuse a taken name before the work, not after it.

    Raises:
        InputError: *name* is no name, a graph, or a run that may not be replaced.
    """
    check_new_name(name)
    if any(info.name == name for info in store.graphs()):
        raise graph_is_there(name)
    if not replace_it and any(run.name == name for run in store.runs()):
        raise run_is_there(name)


def graph_is_there(name: str) -> InputError:
    """The error about a name for a run that a graph has."""
    return InputError(f"{name!r} is an imported graph", hint="choose another --run name")


def run_is_there(name: str) -> InputError:
    """The error about a name that a run has which may not be replaced."""
    return InputError(
        f"a run named {name!r} is already there",
        hint="--replace overwrites it; without --run a fresh name is made",
    )


def compare_into(
    store: GraphStore,
    request: CompareRequest,
    *,
    name: str | None = None,
    replace_it: bool = False,
    progress: Progress = NO_PROGRESS,
) -> tuple[RunData, bool]:
    """Compare and keep the run. Returns the run and whether it was kept.

    A run in which nothing could be compared is not kept.

    Raises:
        InputError: an input cannot be used or the name is taken.
        StoreError: the store cannot be written.
    """
    store.check_writable()  # a comparison takes long: better said now
    if name is not None:
        check_name_free(store, name, replace_it=replace_it)
    data = compare(request, progress)
    if name is not None:
        data = _named(data, name)
    if data.run.verdict is Verdict.NOT_COMPARED:
        return data, False
    progress.stage("writing the run")
    if name is not None:
        store.save_run(data, replace=replace_it)
        return data, True
    return saved_under_fresh_name(store, data), True


def analyse_stored(
    store: GraphStore,
    name: str,
    options: RootCauseOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
    thresholds: Path | None = None,
) -> RunData:
    """Find the root cause in a run kept before, and keep the run with it in one step.

    With *thresholds* its tensors are judged by these first.

    Raises:
        UnknownNameError: no run of this name.
        InputError: its models or dumps are gone or others, or the golden one cannot be run.
        StoreError: the store cannot be read or written.
    """
    store.check_writable()
    data = analysed_again(store.run_data(name), options, progress, thresholds)
    progress.stage("writing the run")
    store.save_run(data, replace=True)
    return data


def _named(data: RunData, name: str) -> RunData:
    return replace(data, run=replace(data.run, name=name))


def saved_under_fresh_name(store: GraphStore, data: RunData) -> RunData:
    """Another process may take the name while ours is being written: then the next one."""
    while True:
        data = _named(data, fresh_name(store))
        try:
            store.save_run(data)
        except NameTakenError:
            continue
        return data
