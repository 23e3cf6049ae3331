"""Writes what is shown to files: rows as CSV, tensors as ``.npy``."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from divergraph.text.printable import printable
from graphstore.cypher.user_question import cell_text
from graphstore.errors import InputError
from graphstore.model import SPLIT_NUMBERS, Metric
from graphstore.op_row import OpRow

Array: TypeAlias = npt.NDArray[Any]
_FIELDS = ("topo", "id", "type", "dtype", "shape", "layout", "sub-graph", "fused", "originals")
_RESULTS = ("state", "level", "output", "over", "reason", "detail", "gain", "origins")

_SPLIT = ("role", "guilt", *SPLIT_NUMBERS)


def write_rows(rows: Iterable[OpRow], folder: Path, name: str) -> Path:
    """Write *rows* to a new file in *folder* and return its path; none is overwritten.

    Floats are in full precision, lists separated by blanks, unknown values empty; what
    a terminal would obey stands as an escape.
    Raises :class:`InputError` if the file cannot be written.
    """
    metrics = [metric.value for metric in Metric]
    header = [*_FIELDS, *_RESULTS, *metrics, *_SPLIT]
    return write_table(header, (_values(row) for row in rows), folder, name)


def write_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], folder: Path, name: str
) -> Path:
    """Write any *rows* so; nothing stands for None, a list is JSON."""

    def write(path: Path) -> None:
        with path.open("x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(map(printable, header))
            writer.writerows([printable(cell_text(cell)) for cell in row] for row in rows)

    return _written(write, folder, name, "csv")


def write_arrays(arrays: Mapping[str, Array], folder: Path, name: str) -> list[Path]:
    """Write *arrays* as new ``.npy`` files ``NAME-KEY.npy`` in *folder*; none is overwritten.

    Raises :class:`InputError` if a file cannot be written.
    """

    def writer(value: Array) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with path.open("xb") as file:
                np.save(file, value, allow_pickle=False)

        return write

    return [
        _written(writer(value), folder, f"{name}-{key}", "npy") for key, value in arrays.items()
    ]


def _written(write: Callable[[Path], None], folder: Path, name: str, ending: str) -> Path:
    """The first free path of the name, which *write* makes."""
    safe = re.sub(r"[^\w.-]+", "_", name) or "rows"
    for number in range(1, 1000):
        path = folder / (f"{safe}.{ending}" if number == 1 else f"{safe}-{number}.{ending}")
        try:
            write(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error
        return path
    raise InputError("there are 999 exports of this name already", where=str(folder))


def _values(row: OpRow) -> list[object]:
    shape = "" if row.shape is None else ",".join("?" if d is None else str(d) for d in row.shape)
    described = [row.topo, row.id, row.type, row.dtype, shape, row.layout, row.subgraph]
    results = [row.state, row.level, row.output, " ".join(row.failed), row.reason, row.detail]
    return [
        *described,
        row.fused,
        " ".join(row.originals),
        *("" if value is None else value for value in results),
        "" if row.gain is None else repr(row.gain),
        " ".join(row.origins),
        *(_metric(row, metric) for metric in Metric),
        *(_part(row, name) for name in _SPLIT),
    ]


def _part(row: OpRow, name: str) -> str:
    value = None if row.split is None else getattr(row.split, name)
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _metric(row: OpRow, metric: Metric) -> str:
    if row.metrics is None:
        return ""
    value = row.metrics.value(metric)
    return ";".join(map(repr, value)) if isinstance(value, tuple) else repr(value)
