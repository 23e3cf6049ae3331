"""Export by file ending: .json, .csv or .graphml, written in one step."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from divergraph.comparison.report_csv import write_csv
from divergraph.export.networkx_graph import write_graphml
from divergraph.json_shapes import Json, row_json, run_json
from divergraph.questions import op_rows
from divergraph.questions.facts import find_run
from graphstore.contract import GraphStore, RunData
from graphstore.errors import InputError
from graphstore.model import Side

ENDINGS = (".json", ".csv", ".graphml")


def export(store: GraphStore, target: str, path: Path, side: Side = Side.DEVICE) -> None:
    """Write *target* to *path* in the format its ending names.

    Raises:
        InputError: unknown ending, missing folder, or a CSV of something that is no run.
        UnknownNameError: no such run or graph.
    """
    if path.suffix not in ENDINGS:
        raise InputError(
            f"cannot tell the format from {path.suffix or 'no ending'!r}",
            where=str(path),
            hint=f"use one of {', '.join(ENDINGS)}",
        )
    if not path.parent.is_dir():
        raise InputError("no such folder", where=str(path.parent))
    run = find_run(store, target)
    if path.suffix == ".csv":
        if run is None:
            raise InputError(f"{target!r} is a graph; only a run has a CSV report")
        write_csv(path, _run_data(store, target))
    elif path.suffix == ".graphml":
        with _replacing(path) as temporary:
            write_graphml(store, target, temporary, side)
    else:
        text = json.dumps(_document(store, target, side), indent=1, ensure_ascii=False)
        with _replacing(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


def _run_data(store: GraphStore, target: str) -> RunData:
    return RunData(
        store.run(target),
        store.graph(target, Side.GOLDEN),
        store.graph(target),
        tuple(store.links(target)),
        tuple(store.comparisons(target)),
        store.states(target),
        tuple(store.origins(target)),
    )


def _document(store: GraphStore, target: str, side: Side) -> dict[str, Json]:
    graph, run = store.graph(target, side), find_run(store, target)
    shape: dict[str, Json] = {}
    if run is not None and side is Side.DEVICE:
        types = {op.id: op.type for op in graph.ops}
        shape = run_json(run, store.origins(target), store.comparisons(target), types)
    shape["graph"] = graph.name
    shape["side"] = side.value
    shape["ops"] = [row_json(row) for row in op_rows(store, target, side)]
    shape["edges"] = [
        {
            "from": edge.source,
            "output": edge.source_port,
            "to": edge.target,
            "input": edge.target_port,
            "kind": edge.kind.value,
        }
        for edge in graph.edges()
    ]
    return shape


class _replacing:  # noqa: N801 - reads as a verb at the place of use
    """A temporary file beside *path* that takes its place if the block succeeds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Path:
        try:
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror}", where=str(self._path)) from error
        os.close(handle)
        self._temporary = Path(name)
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._temporary.unlink(missing_ok=True)
            return
        self._temporary.chmod(0o644)
        self._temporary.replace(self._path)
