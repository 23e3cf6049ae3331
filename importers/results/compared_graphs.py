"""Graphs compared by msprobe's visualisation: an SQLite database, ``.vis.db``, since 8.2; before
it JSON, ``.vis``.

A database is opened as it stands and written nowhere: no file appears beside it, and nothing it
says is run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError, InputError
from importers.kept import kept_text
from importers.nesting import json_fault
from importers.source import read_head, read_whole

MAX_NODES = 2_000_000
MAX_BYTES = 1 << 30
_TABLE = "tb_nodes"
_COLUMNS = (
    *("node_name", "up_node", "precision_index", "overflow_level", "matched_node_link"),
    *("input_data", "output_data"),
)
_HINT = "copy the file again, or compare the graphs again"


@dataclass(frozen=True, slots=True)
class ComparedNode:
    """A module, a call or a collection of calls: ``around`` is the module it ran in, ``index`` how
    bad msprobe holds it to be (0 to 1), ``tensors`` what is said of each by its name."""

    name: str
    around: str
    index: float | None
    overflow: str
    match: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparedGraphs:
    """Both sides of one step of one rank; ``golden`` is empty where only one graph was built."""

    device: tuple[ComparedNode, ...]
    golden: tuple[ComparedNode, ...]


def is_database(head: bytes) -> bool:
    """Whether a file that starts with *head* is such a database: its tables are on its first
    page."""
    return head.startswith(b"SQLite format 3\0") and _TABLE.encode() in head


def read_database(path: Path, step: int | None = None, rank: int | None = None) -> ComparedGraphs:
    """The graphs in the database *path*; of several those of *step* and *rank*.

    Raises:
        ImportFormatError: no such database, a damaged one, or one too large.
        InputError: several steps or ranks are in it, or not these.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        what = f"rows of this database are still in {log.name} beside it"
        raise ImportFormatError(path, what, hint="let the tool that writes it end first")
    _check_length(path)
    try:
        # immutable: SQLite makes no lock and no journal, which a folder of others may refuse
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as base:
            base.execute("PRAGMA trusted_schema = OFF")
            base.execute("PRAGMA cell_size_check = ON")
            base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
            _check_columns(path, base)
            place = _place(path, base, step, rank)
            return ComparedGraphs(
                tuple(_rows(path, base, "NPU", place)), tuple(_rows(path, base, "Bench", place))
            )
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise ImportFormatError(path, f"a damaged database: {error}", hint=_HINT) from error


def _check_length(path: Path) -> None:
    """SQLite reads what a cut file has left, and says nothing (its header tells pages and size)."""
    head, size = read_head(path), path.stat().st_size
    page = int.from_bytes(head[16:18]) or 1
    expected_size = int.from_bytes(head[28:32]) * (1 << 16 if page == 1 else page)
    if head[24:28] == head[92:96] and size < expected_size:
        what = f"a damaged database: {size} of {expected_size} bytes are here"
        raise ImportFormatError(path, what, hint=_HINT)


def _check_columns(path: Path, base: sqlite3.Connection) -> None:
    # a view could keep us busy for ever
    row = base.execute("SELECT type FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone()
    if row != ("table",):
        what = f"an SQLite database without msprobe's table {_TABLE}"
        raise ImportFormatError(path, what, hint="it is not one of graphs compared by msprobe")
    columns = {row[1] for row in base.execute(f"PRAGMA table_info({_TABLE})")}
    missing = {*_COLUMNS, "data_source", "node_order", "step", "rank"} - columns
    if missing:
        raise ImportFormatError(path, f"its table {_TABLE} has no column {min(missing)}")


def _place(
    path: Path, base: sqlite3.Connection, step: int | None, rank: int | None
) -> tuple[int, int]:
    """The step and rank to read."""
    statement = f"SELECT DISTINCT step, rank FROM {_TABLE} ORDER BY step, rank"  # noqa: S608 - ours
    places = base.execute(statement).fetchmany(10_000)
    fitting = [place for place in places if step in (None, place[0]) and rank in (None, place[1])]
    if len(fitting) == 1:
        return fitting[0][0], fitting[0][1]
    listed = ", ".join(f"step {step} rank {rank}" for step, rank in (fitting or places)[:6])
    if not places:
        raise ImportFormatError(path, "a database without a node", hint=_HINT)
    what = f"{len(fitting)} graphs are in this database" if fitting else "no such step and rank"
    raise InputError(what, where=str(path), hint=f"choose by --step and --rank: {listed}")


def _rows(
    path: Path, base: sqlite3.Connection, side: str, place: tuple[int, int]
) -> Iterator[ComparedNode]:
    columns = ", ".join(_COLUMNS)
    statement = (
        f"SELECT {columns} FROM {_TABLE} WHERE data_source = ? AND step = ? AND rank = ? "  # noqa: S608 - our own names
        "ORDER BY node_order"
    )
    size_read = 0
    for number, row in enumerate(base.execute(statement, (side, *place))):
        size_read += sum(len(cell) for cell in row if isinstance(cell, str))
        if number >= MAX_NODES or size_read > MAX_BYTES:
            raise ImportFormatError(path, f"more than {MAX_NODES} nodes or {MAX_BYTES >> 30} GiB")
        name, around, index, overflow, *texts = row
        link, inputs, outputs = (_json(path, name, text) for text in texts)
        yield _node(name, around, index, overflow, link, inputs, outputs)


def _json(path: Path, node: str, text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError) as error:
        what = f"what it says of {kept_text(str(node))[:200]} is no JSON: {json_fault(error)}"
        raise ImportFormatError(path, what, hint=_HINT) from error


def read_json(path: Path) -> ComparedGraphs:
    """The graphs in the ``.vis`` file *path*.

    Raises:
        ImportFormatError: no such file, a damaged one, or one too large.
    """
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise ImportFormatError(path, f"graphs of more than {MAX_BYTES >> 30} GiB")
    try:
        content = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ImportFormatError(path, f"no JSON: {json_fault(error)}", hint=_HINT) from error
    sides = {} if not isinstance(content, dict) else content
    nodes = [_member(sides.get(side), "node") for side in ("NPU", "Bench")]
    if not nodes[0]:
        raise ImportFormatError(path, "it lists no node of the side NPU", hint=_HINT)
    device, golden = (tuple(_in_order(list(_listed(node)))) for node in nodes)
    return ComparedGraphs(device, golden)


def _in_order(nodes: list[ComparedNode]) -> Iterator[ComparedNode]:
    """*nodes* as databases have them: what ran inside of a node before it."""
    inside: dict[str, list[ComparedNode]] = {}
    names = {node.name for node in nodes}
    for node in nodes:
        inside.setdefault(node.around if node.around in names else "", []).append(node)
    waiting = [(node, False) for node in reversed(inside.get("", []))]
    while waiting:
        node, entered = waiting.pop()
        if entered:
            yield node
        else:
            waiting.append((node, True))
            waiting.extend((node, False) for node in reversed(inside.pop(node.name, [])))


def _listed(nodes: Mapping[str, Any]) -> Iterator[ComparedNode]:
    for name, fields in nodes.items():
        about = _mapping(fields)
        data = _mapping(about.get("data"))
        yield _node(
            name,
            about.get("upnode"),
            data.get("precision_index"),
            data.get("overflow_level"),
            about.get("matched_node_link"),
            about.get("input_data"),
            about.get("output_data"),
        )


def _node(
    name: object,
    around: object,
    index: object,
    overflow: object,
    link: object,
    inputs: object,
    outputs: object,
) -> ComparedNode:
    number = isinstance(index, int | float) and not isinstance(index, bool)
    return ComparedNode(
        str(name),
        around if isinstance(around, str) and around != "None" else "",
        float(index) if number else None,  # type: ignore[arg-type]  # said one line above
        overflow if isinstance(overflow, str) else "",
        str(link[-1]) if isinstance(link, list) and link else "",
        _mapping(inputs),
        _mapping(outputs),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _member(value: object, name: str) -> Mapping[str, Any]:
    return _mapping(_mapping(value).get(name))


def as_lines(graphs: ComparedGraphs) -> Iterator[Mapping[str, str]]:
    """The tensors under the titles of msprobe's table of results."""
    golden = {node.name: node for node in graphs.golden}
    for node in graphs.device:
        match = golden.get(node.match)
        yield from _of_side(node.inputs, {} if match is None else match.inputs)
        yield from _of_side(node.outputs, {} if match is None else match.outputs)


def _of_side(tensors: Mapping[str, Any], matches: Mapping[str, Any]) -> Iterable[Mapping[str, str]]:
    # numbers and texts among the arguments have a type, but only tensors an element type
    others = [match for match in matches.items() if "dtype" in _mapping(match[1])]
    typed = [tensor for tensor in tensors.items() if "dtype" in _mapping(tensor[1])]
    for number, (name, about) in enumerate(typed):
        other, golden = others[number] if number < len(others) else ("N/A", {})
        yield {
            "NPU Name": name,
            "Bench Name": other,
            **{title: str(value) for title, value in about.items()},
            "NPU Dtype": str(about.get("dtype", "")),
            "Bench Dtype": str(golden.get("dtype", "")),
            "NPU Tensor Shape": str(about.get("shape", "")),
            "Bench Tensor Shape": str(golden.get("shape", "")),
            **_figures("NPU", about),
            **_figures("Bench", golden),
        }


def _figures(who: str, tensor: Mapping[str, Any]) -> Mapping[str, str]:
    """The statistics of one side's tensor."""
    titles = {"Max": "max", "Min": "min", "Mean": "mean", "Norm": "l2norm"}
    return {f"{who} {title}": str(tensor[name]) for name, title in titles.items() if name in tensor}
