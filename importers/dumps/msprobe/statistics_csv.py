"""Dumps of statistics: CSV tables with numbers about tensors instead of their values.

Ascend writes one ``{dump name}.csv`` for each op (``Input/Output,Index,...``), MindSpore
one ``statistic.csv`` for a whole folder with the op in each line. Columns are found by
their titles, since which there are can be chosen.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO, TensorStatistics
from importers.dumps.index import DamagedError, open_dump
from importers.dumps.names import DumpName, written
from importers.number_formats import CHECKSUMS, known_layout, named_dtype
from importers.source import read_at

TABLE = "statistic.csv"
ENDING = ".csv"
_MAX_BYTES = 64 << 20
_MAX_PORT = 1 << 16
_IO = {"input": TensorIO.INPUT, "output": TensorIO.OUTPUT}
_DIRECTION = ("input/output", "io")
_NUMBER = ("index", "slot")
_OP_COLUMNS = ("op type", "op name", "task id", "stream id", "timestamp")


@dataclass(frozen=True, slots=True)
class StatisticsRow:
    """One line: the tensor without its op. ``names`` are the op's where the line tells it:
    with its scope, and the last part alone, as MindSpore's file names have it."""

    io: TensorIO
    number: int
    dtype: DType | None
    layout: str | None
    shape: tuple[int, ...] | None
    statistics: TensorStatistics
    names: tuple[DumpName, ...] = ()

    def ref(self, path: Path, op: str, port: int, timestamp: int) -> DumpTensorRef:
        """The tensor as a reference that holds statistics only."""
        return DumpTensorRef(
            path=path,
            format=DumpFormat.STATISTICS,
            op=op,
            io=self.io,
            port=port,
            dtype=self.dtype,
            shape=self.shape,
            layout=self.layout,
            timestamp=timestamp,
            statistics=self.statistics,
        )


def read_statistics(path: Path) -> tuple[StatisticsRow, ...]:
    """The lines of one table of statistics.

    Raises:
        DamagedError: it is no such table, or a line of it is damaged; says which.
    """
    with open_dump(path) as (fd, size):
        if size > _MAX_BYTES:
            raise _bad(f"a table of {size} bytes, more than {_MAX_BYTES}", 1)
        data = read_at(fd, size, 0)
    rows = tuple(parse_statistics(data.decode("utf-8", "replace")))
    if not rows:
        raise _bad("a table of statistics without a tensor", 1)
    return rows


def parse_statistics(text: str) -> Iterator[StatisticsRow]:
    """As :func:`read_statistics`, for the table's *text*."""
    reader = csv.reader(io.StringIO(text.replace("\0", "")))
    try:
        titles = [title.strip().lower() for title in next(reader, [])]
        if not any(title in titles for title in _DIRECTION):
            raise _bad("this is not a table of statistics: no column Input/Output", 1)
        for values in reader:
            if any(value.strip() for value in values):
                told = dict(zip(titles, map(str.strip, values), strict=False))
                yield _Line(told, reader.line_num).row()
    except csv.Error as error:
        raise _bad(f"no CSV: {error}", reader.line_num) from None


@dataclass(frozen=True, slots=True)
class _Line:
    told: dict[str, str]
    """What it says under each title."""
    number: int

    def row(self) -> StatisticsRow:
        direction = _IO.get(self.text(*_DIRECTION).lower())
        port = self.text(*_NUMBER)
        if direction is None or not port.isdecimal() or int(port) > _MAX_PORT:
            raise _bad(
                f"{self.text(*_DIRECTION)!r} {port!r} is not an input or output", self.number
            )
        shape = _shape(self.text("shape"))
        return StatisticsRow(
            io=direction,
            number=int(port),
            dtype=named_dtype(self.text("data type")),
            layout=known_layout(self.text("format")),
            shape=shape,
            statistics=self.statistics(shape),
            names=self.names(),
        )

    def statistics(self, shape: tuple[int, ...] | None) -> TensorStatistics:
        infinities = [self.whole(f"{sign} inf count") for sign in ("negative", "positive")]
        known = [count for count in infinities if count is not None]
        count = self.whole("count")
        return TensorStatistics(
            count=count if count is not None or shape is None else math.prod(shape),
            maximum=self.real("max value", "max"),
            minimum=self.real("min value", "min"),
            mean=self.real("avg value", "avg", "mean"),
            norm=self.real("l2norm", "l2norm value", "norm"),
            nans=self.whole("nan count"),
            infinities=sum(known) if known else None,
            checksum=next(
                (f"{kind}:{text}" for kind in CHECKSUMS if (text := self.text(kind))), ""
            ),
        )

    def names(self) -> tuple[DumpName, ...]:
        if "op name" not in self.told:
            return ()
        op_type, op_name, *numbers = (self.text(title) for title in _OP_COLUMNS)
        task, stream, stamp = map(_number, numbers)
        return tuple(
            DumpName(written(op_type), written(form), task, stream, stamp)
            for form in dict.fromkeys((op_name, op_name.rpartition("/")[2] or op_name))
        )

    def text(self, *titles: str) -> str:
        return next((self.told[title] for title in titles if title in self.told), "")

    def real(self, *titles: str) -> float | None:
        text = self.text(*titles)
        if text in ("", "-", "null", "None"):
            return None
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        try:
            return float(text)
        except ValueError:
            raise _bad(f"{titles[0]} is {text[:40]!r}, no number", self.number) from None

    def whole(self, title: str) -> int | None:
        value = self.real(title)
        return int(value) if value is not None and math.isfinite(value) and value >= 0 else None


def _shape(text: str) -> tuple[int, ...] | None:
    """``1x3x224x224`` or ``(1, 3, 224, 224)``; None if it is not told."""
    plain = text.strip("()[] ")
    if text in ("()", "[]"):
        return ()
    if not plain or plain == "-":
        return None
    sizes = [part.strip() for part in plain.replace(",", "x").split("x")]
    sizes = [size for size in sizes if size]
    if not all(size.isdecimal() and len(size) < 19 for size in sizes) or len(sizes) > 64:
        return None
    return tuple(map(int, sizes))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _bad(what: str, line: int) -> DamagedError:
    return DamagedError(f"line {line}: {what}")
