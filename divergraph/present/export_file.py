"""Export by file ending: .json, .csv, .graphml or .html, written in one step."""

from __future__ import annotations

import json
from pathlib import Path

from divergraph.ask.facts import find_run, op_rows
from divergraph.ask.questions.verdict import RunVerdict
from divergraph.files.whole_files import check_place, whole_file
from divergraph.present.computed_fields import origins_by_key
from divergraph.present.csv_report import write_csv
from divergraph.present.declared_answer import answer_json
from divergraph.present.html.graph_page import graph_page
from divergraph.present.json_text import Json
from divergraph.present.networkx_graph import write_graphml
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Side

ENDINGS = (".json", ".csv", ".graphml", ".html")


def export(
    store: GraphStore, target: str, path: Path, side: Side = Side.DEVICE, against: str = ""
) -> None:
    """Write *target* to *path* in the format its ending names; as .html the picture of its graphs,
    with how a run changed since the run *against*.

    Raises:
        InputError: unknown ending, missing folder, a CSV of something that is no run, or *against*
            with another ending.
        UnknownNameError: no such run or graph.
    """
    if path.suffix not in ENDINGS:
        raise InputError(
            f"cannot tell the format from {path.suffix or 'no ending'!r}",
            where=str(path),
            hint=f"use one of {', '.join(ENDINGS)}",
        )
    if against and path.suffix != ".html":
        raise InputError("only the picture of a graph is held against a run", where=str(path))
    check_place(path)
    run = find_run(store, target)
    if path.suffix == ".csv":
        if run is None:
            raise InputError(f"{target!r} is a graph; only a run has a CSV report")
        write_csv(path, store.run_data(target))
    elif path.suffix == ".graphml":
        with whole_file(path) as temporary:
            write_graphml(store, target, temporary, side)
    elif path.suffix == ".html":
        page = graph_page(store, target, against)
        with whole_file(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    else:
        text = json.dumps(_document(store, target, side), indent=1, ensure_ascii=False)
        with whole_file(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


def _document(store: GraphStore, target: str, side: Side) -> dict[str, Json]:
    graph, run = store.graph(target, side), find_run(store, target)
    shape: dict[str, Json] = {}
    if run is not None and side is Side.DEVICE:
        types = {op.id: op.type for op in graph.ops}
        comparisons = store.comparisons(target)
        shape = answer_json(RunVerdict(run, target, store.origins(target), comparisons, types))
    shape["graph"] = graph.name
    shape["side"] = side.value
    rows = op_rows(store, target, side)
    shape["ops"] = [answer_json(row, "ListedOpEntry") for row in rows]
    shape["origins_of_ops"] = origins_by_key(rows)
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
