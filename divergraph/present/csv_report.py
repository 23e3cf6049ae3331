"""The result table in the columns of msaccucmp's ``result_<time>.csv``.

Spreadsheets, scripts and advisors made for that file read this one. Values have six
decimals; what is missing is ``NaN``. The reasons are our own words.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula and
may run it. No op of TensorFlow, GE or a sane exporter is called so; a text that is gets an
apostrophe before it, as spreadsheets have it for "this is text". What a terminal would obey
(``cat report.csv``) stands as an escape, ``\\x1b`` for ESC; each row is one line of the file.
"""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from divergraph.files.whole_files import whole_file
from divergraph.graphs.lineage.fusion_groups import fusion_groups
from divergraph.text.printable import printable
from divergraph.text.words import REASON_WORDS
from graphstore.contract import RunData
from graphstore.model import Comparison, LineageLink, Metric, Op, TensorIO

REPORT = "CSV report"
_NAN = "NaN"
_INSERTED = "*"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LEAST_SHOWN = 0.001
"""Means and deviations smaller than this are written as 0, as the reference does."""


def write_csv(path: Path, data: RunData) -> None:
    """Write the report of a run to *path*, whole or not at all.

    Rows are sorted by Index, the number of the fusion group in the order of the device
    graph; each tensor has a row, an op without any dump one row. A device or pipe
    (``/dev/stdout``) is written to, never replaced.

    Raises:
        InputError: the folder does not exist or cannot be written.
    """
    with whole_file(path, REPORT) as place, place.open("wb") as file:
        write_csv_to(file, data)


def write_csv_to(file: IO[bytes], data: RunData, *, mark: bool = False) -> None:
    """Write the report to an open file; with *mark* it begins with a byte order mark, by
    which Excel knows that it is UTF-8."""
    if mark:
        file.write(codecs.BOM_UTF8)
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    csv.writer(text).writerows(map(printable, row) for row in report_rows(data))
    text.flush()
    text.detach()


def report_rows(data: RunData) -> Iterator[list[str]]:
    """Header and rows of the report as text cells."""
    columns = _Columns.of(data.comparisons)
    yield columns.header()
    tensors: dict[str, list[Comparison]] = {}
    for comparison in data.comparisons:
        tensors.setdefault(comparison.op, []).append(comparison)
    golden = _golden_names(data.device.ops, data.links)
    for index, group in enumerate(fusion_groups(data.device.ops)):
        for op in group:
            for comparison in _listed_comparisons(tensors.get(op.id, [])):
                yield columns.row(index, op, golden[op.id], comparison)


def _golden_names(ops: Sequence[Op], links: Sequence[LineageLink]) -> dict[str, str]:
    """The GroundTruth cell of each op: its originals, ``*`` if inserted, or its own name."""
    linked: dict[str, dict[str, None]] = {}
    for link in links:
        linked.setdefault(link.device, {})[link.original] = None
    cells = {}
    for op in ops:
        if op.original_names is not None:
            names = [name for name in op.original_names if name] or [_INSERTED]
        else:
            names = list(linked.get(op.id, {op.name: None}))
        cells[op.id] = ",".join(names)
    return cells


def _listed_comparisons(comparisons: list[Comparison]) -> list[Comparison]:
    """An op's comparisons, inputs first; of an op without any dump only one, to show the reason."""
    ordered = sorted(comparisons, key=lambda c: (c.io is not TensorIO.INPUT, c.port))
    if any(c.compared or c.device_path for c in ordered):
        return ordered
    return ordered[:1]


class _Columns:
    """Which columns the report has: addresses are left out for sides read from ``.npy``."""

    def __init__(self, *, device_address: bool, golden_address: bool) -> None:
        self._device_address = device_address
        self._golden_address = golden_address

    @classmethod
    def of(cls, comparisons: Sequence[Comparison]) -> _Columns:
        return cls(
            device_address=not any(c.device_path.endswith(".npy") for c in comparisons),
            golden_address=any(
                c.golden_path and not c.golden_path.endswith(".npy") for c in comparisons
            ),
        )

    def header(self) -> list[str]:
        cells = ["Index", "OpType"]
        cells += self._side("NPUDump", "DataType", "Address", self._device_address)
        cells += self._side("GroundTruth", "DataType", "Address", self._golden_address)
        cells += ["TensorIndex", "Shape", "OverFlow"]
        cells += [_camel_case(metric) for metric in Metric]
        return [*cells, "CompareFailReason"]

    def row(self, index: int, op: Op, golden: str, comparison: Comparison) -> list[str]:
        dumped = comparison.compared or bool(comparison.device_path)
        device_type = comparison.device_dtype if comparison.compared else None
        golden_type = comparison.golden_dtype if comparison.compared else None
        # A dump without an address is shown at 0, as in the reference comparator.
        address = str(comparison.address or 0) if dumped else _NAN
        name = no_formula(op.name)
        cells = [str(index), no_formula(op.type)]
        cells += self._side(name, device_type or _NAN, address, self._device_address)
        cells += self._side(no_formula(golden), golden_type or _NAN, _NAN, self._golden_address)
        cells += [
            f"{name}:{comparison.io}:{comparison.port}" if dumped else _NAN,
            _shape(op, comparison) if dumped else _NAN,
            {True: "YES", False: "NO", None: _NAN}[comparison.overflow],
        ]
        cells += [_metric(comparison, metric) for metric in Metric]
        return [*cells, _reason(op, comparison)]

    @staticmethod
    def _side(name: str, dtype: str, address: str, with_address: bool) -> list[str]:
        return [name, dtype, address] if with_address else [name, dtype]


def no_formula(text: str) -> str:
    """*text* with an apostrophe in front if a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _camel_case(metric: Metric) -> str:
    return metric.value.title().replace("_", "")


def _shape(op: Op, comparison: Comparison) -> str:
    shape: Sequence[int | None] | None = comparison.shape
    if shape is None and comparison.io is TensorIO.OUTPUT and comparison.port < len(op.outputs):
        shape = op.outputs[comparison.port].shape
    if shape is None:
        return _NAN
    return f"[{','.join('?' if size is None else str(size) for size in shape or (1,))}]"


def _metric(comparison: Comparison, metric: Metric) -> str:
    if comparison.metrics is None:
        return _NAN
    value = comparison.metrics.value(metric)
    if not isinstance(value, tuple):
        return _NAN if math.isnan(value) else f"{value:.6f}"
    if all(map(math.isnan, value)):
        return _NAN
    mean_x, std_x, mean_y, std_y = map(_three_decimals, value)
    return f"({mean_x};{std_x}),({mean_y};{std_y})"


def _three_decimals(value: float) -> str:
    if math.isnan(value):
        return _NAN
    return f"{0.0 if abs(value) < _LEAST_SHOWN else value:.3f}"


def _reason(op: Op, comparison: Comparison) -> str:
    if comparison.metrics is not None:
        return ", ".join(dict.fromkeys(comparison.metrics.notes.values()))
    reason_text = REASON_WORDS[comparison.reason] if comparison.reason else "it was not compared"
    text = f"[{op.name}] {reason_text}"
    return f"{text}: {comparison.detail}" if comparison.detail else text
