"""Tables of results that other tools wrote, opened as runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from divergraph.api.arguments import AnyPath, optional_path
from divergraph.api.runs.compared_run import ComparedRun
from divergraph.api.store import AnyStore, opened_for_keeping
from divergraph.comparison.keep_run import check_name_free, saved_under_fresh_name
from divergraph.comparison.opened_result import open_result as opened_table


def open_result(
    table: AnyPath,
    *,
    device: AnyPath | None = None,
    thresholds: AnyPath | None = None,
    store: AnyStore | None = None,
    run: str | None = None,
    replace_it: bool = False,
    step: int | None = None,
    rank: int | None = None,
) -> ComparedRun:
    """The run that a result table of msaccucmp (``result_*.csv``) or msprobe
    (``compare_result*.csv`` or ``.xlsx``, ``.vis.db``, ``.vis``) tells of; kept in *store* if one
    is given. *step* and *rank* choose among the graphs of a ``.vis.db``.

    *device* is the graph of the device's model; without it ops follow each other as the rows do.
    *thresholds* judge the metrics of the table.

    Raises:
        InputError: no such table, a graph of other ops, or the name *run* is taken.
        StoreError: the store cannot be written.
    """
    graph, limits = optional_path(device), optional_path(thresholds)
    if store is None:
        data = opened_table(Path(table), device=graph, thresholds=limits, step=step, rank=rank)
        name = run or data.run.name
        return ComparedRun(name, data=replace(data, run=replace(data.run, name=name)))
    target_store = opened_for_keeping(store)
    target_store.check_writable()
    if run is not None:
        check_name_free(target_store, run, replace_it=replace_it)
    data = opened_table(Path(table), device=graph, thresholds=limits, step=step, rank=rank)
    if run is None:
        data = saved_under_fresh_name(target_store, data)
    else:
        data = replace(data, run=replace(data.run, name=run))
        target_store.save_run(data, replace=replace_it)
    return ComparedRun(data.run.name, store=target_store, data=data)
