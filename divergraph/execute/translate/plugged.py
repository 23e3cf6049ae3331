"""Rows of plug-ins: entry points of the group ``divergraph.translations``.

An entry point is called as the framework (``caffe``, ``tensorflow``). It names an :class:`OpRows`,
or a function that is given an empty one to put its rows into. They go before those of the product.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from divergraph.execute.translate.contract import OpRows

TRANSLATIONS = "divergraph.translations"


def with_plugged(rows: OpRows) -> OpRows:
    """*rows*, and before them those that plug-ins have for the framework."""
    all_rows = OpRows(rows.framework, dict(rows.entries))
    for entry in sorted(
        entry_points(group=TRANSLATIONS), key=lambda entry_point: entry_point.value
    ):
        if entry.name != rows.framework:
            continue
        plugged = entry.load()
        added = plugged if isinstance(plugged, OpRows) else OpRows(rows.framework)
        if added is not plugged:
            plugged(added)
        all_rows.entries.update(added.entries)
    return all_rows
