"""The rows of a table of results as tensors with metrics."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphstore.model import METRIC_NUMBERS, DType, Metric, MetricSet, TensorIO, TensorStatistics
from importers.number_formats import named_dtype
from importers.results.table import ResultKind, ResultTable

_NO_ORIGINAL = "*"
_INDEX = re.compile(r"(?P<op>.*):(?P<io>input|output):(?P<port>\d{1,5})")
_CALL = re.compile(r"(?P<op>.+?)[._](?P<io>input|output|parameters)(?:[._](?P<rest>.+))?")
_GRADIENTS = re.compile(r"(?P<op>.+?\.parameters_grad(?:\.\d+)?)(?:\.(?P<rest>.+))?")
"""Of a layer's weights; an entry of its own in the dump, and so an op."""
_LAYER = re.compile(
    r".+\.(?P<type>[^.]*[^.\d][^.]*)(?:\.\d+)?\.(?P<way>forward|backward|parameters_grad)(?:\.\d+)?"
)
_NUMBERS = {
    "CosineSimilarity": Metric.COSINE_SIMILARITY,
    "MaxAbsoluteError": Metric.MAX_ABSOLUTE_ERROR,
    "AccumulatedRelativeError": Metric.ACCUMULATED_RELATIVE_ERROR,
    "RelativeEuclideanDistance": Metric.RELATIVE_EUCLIDEAN_DISTANCE,
    "KullbackLeiblerDivergence": Metric.KULLBACK_LEIBLER_DIVERGENCE,
    "MeanAbsoluteError": Metric.MEAN_ABSOLUTE_ERROR,
    "RootMeanSquareError": Metric.ROOT_MEAN_SQUARE_ERROR,
    "MaxRelativeError": Metric.MAX_RELATIVE_ERROR,
    "MeanRelativeError": Metric.MEAN_RELATIVE_ERROR,
    "Cosine": Metric.COSINE_SIMILARITY,
    "MaxAbsErr": Metric.MAX_ABSOLUTE_ERROR,
    "MaxRelativeErr": Metric.MAX_RELATIVE_ERROR,
}
"""The titles of both tools' columns that are ours. msprobe's EucDist is absolute: with the golden
norm and the number of elements it makes two of ours."""

_STATISTICS = ("Max diff", "Min diff", "Mean diff", "L2norm diff", "Result")
_DEVIATION = re.compile(r"\(\s*(.+?);\s*(.+?)\),\s*\(\s*(.+?);\s*(.+?)\)")
_CHECKSUMS = (("NPU MD5", "BENCH MD5"), ("NPU CRC32", "BENCH CRC32"))
_NO_TENSOR = frozenset({"", "N/A", "None", "nan"})
_NOT_SAID = "the table does not say"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One tensor of a table. ``originals`` are empty for an inserted op; ``failure`` says why there
    are no metrics; ``remark`` is the table's own verdict; ``statistics`` are the device's and the
    golden side's where the table has such and no metrics."""

    op: str
    type: str
    io: TensorIO
    port: int
    originals: tuple[str, ...]
    shape: tuple[int, ...] | None = None
    device_dtype: DType | None = None
    golden_dtype: DType | None = None
    metrics: MetricSet | None = None
    overflow: bool | None = None
    failure: str = ""
    remark: str = ""
    statistics: tuple[TensorStatistics, TensorStatistics] | None = None


def result_rows(table: ResultTable) -> Iterator[ResultRow]:
    """The tensors of *table* in its order."""
    read = _msaccucmp if table.kind is ResultKind.MSACCUCMP else _msprobe
    ports: Counter[tuple[str, TensorIO]] = Counter()
    for line in table.lines:
        row = read(line)
        if row is None:
            continue
        place = (row.op, row.io)
        # no number, or that of the list it is in
        if table.kind is ResultKind.MSPROBE and row.port < ports[place]:
            row = replace(row, port=ports[place])
        ports[place] = max(ports[place], row.port + 1)
        yield row


def _msaccucmp(line: Mapping[str, str]) -> ResultRow | None:
    device = line.get("NPUDump") or line.get("LeftOp") or ""
    golden = line.get("GroundTruth") or line.get("RightOp") or ""
    match = _INDEX.fullmatch(line.get("TensorIndex", ""))
    if not device or device == "NaN":
        return None
    shape = _shape(line.get("Shape", ""))
    metrics = _metrics(line, shape)
    originals = () if golden in (_NO_ORIGINAL, "NaN", "") else tuple(golden.split(","))
    return ResultRow(
        device,
        line.get("OpType", ""),
        TensorIO(match["io"]) if match else TensorIO.OUTPUT,
        int(match["port"]) if match else -1,
        originals,
        shape,
        named_dtype(line.get("DataType", "")),
        named_dtype(line.get("DataType 2", "")),
        metrics,
        {"YES": True, "NO": False}.get(line.get("OverFlow", "").upper()),
        line.get("CompareFailReason", "") if metrics is None else "",
    )


def _msprobe(line: Mapping[str, str]) -> ResultRow | None:
    name, golden = line.get("NPU Name", ""), line.get("Bench Name", "")
    if name in _NO_TENSOR or _is_no_tensor(line):
        return None
    op, io, port = _place(name)
    shape = _shape(line.get("NPU Tensor Shape", ""))
    # of statistics alone the table tells errors of maxima and means, which are no metrics
    metrics = _metrics({**line, **_distances(line, shape)}, shape) if "Cosine" in line else None
    statistics = _both_statistics(line, shape) if metrics is None else None
    reached = line.get("Accuracy Reached or Not") or line.get("Result") or ""
    return ResultRow(
        op,
        call_type(op),
        io,
        port,
        () if golden in _NO_TENSOR else (_place(golden)[0],),
        shape,
        named_dtype(line.get("NPU Tensor Dtype") or line.get("NPU Dtype", "")),
        named_dtype(line.get("Bench Tensor Dtype") or line.get("Bench Dtype", "")),
        metrics,
        None,
        _failure(line) if metrics is None and statistics is None else "",
        f"msprobe: {reached}" if reached else "",
        statistics,
    )


def _is_no_tensor(line: Mapping[str, str]) -> bool:
    """Whether the line is about an argument that is no tensor: no type and shape on either side,
    or the type of a number."""
    if (line.get("NPU Tensor Dtype") or line.get("NPU Dtype", "")).startswith("<class"):
        return True
    cells = [line[title] for title in line if title.endswith((" Dtype", "Tensor Shape"))]
    return len(cells) > 3 and _NO_TENSOR.issuperset(cells)


def _place(name: str) -> tuple[str, TensorIO, int]:
    """The call that a tensor of this *name* belongs to, and its place there; -1 where the name
    does not tell it, as of weights (``parameters``, inputs too) and their gradients."""
    if match := _GRADIENTS.fullmatch(name):
        return match["op"], TensorIO.OUTPUT, _port(match["rest"])
    match = _CALL.fullmatch(name)
    if match is None:
        return name, TensorIO.OUTPUT, 0
    io = TensorIO.OUTPUT if match["io"] == "output" else TensorIO.INPUT
    return match["op"], io, -1 if match["io"] == "parameters" else _port(match["rest"])


def _distances(line: Mapping[str, str], shape: tuple[int, ...] | None) -> Mapping[str, str]:
    """The relative distance and the root mean square that follow from the absolute distance."""
    distance, norm = _number(line.get("EucDist", "")), _number(line.get("Bench l2norm", ""))
    if distance is None:
        return {}
    distances: dict[str, str] = {}
    if norm:
        distances["RelativeEuclideanDistance"] = repr(distance / norm)
    if count := math.prod(shape or (0,)):
        distances["RootMeanSquareError"] = repr(distance / math.sqrt(count))
    return distances


def _both_statistics(
    line: Mapping[str, str], shape: tuple[int, ...] | None
) -> tuple[TensorStatistics, TensorStatistics] | None:
    """What the line tells of the device's and of the golden tensor by itself; None if nothing."""
    count = None if shape is None else math.prod(shape)
    other = _shape(line.get("Bench Tensor Shape", ""))
    sides = [
        _side(line, "NPU", count),
        _side(line, "Bench", None if other is None else math.prod(other)),
    ]
    for kind, titles in enumerate(_CHECKSUMS):
        sums = [line.get(title, "") for title in titles]
        if not _NO_TENSOR.intersection(sums):
            sides = [
                replace(side, checksum=f"{kind}:{text}")
                for side, text in zip(sides, sums, strict=True)
            ]
    if any(side == TensorStatistics(side.count) for side in sides):
        return None
    return sides[0], sides[1]


def _side(line: Mapping[str, str], who: str, count: int | None) -> TensorStatistics:
    high, low, mean, norm = (
        _number(line.get(f"{who} {word}", "")) for word in ("max", "min", "mean", "l2norm")
    )
    return TensorStatistics(count, high, low, mean, norm)


def _failure(line: Mapping[str, str]) -> str:
    """Why a line of msprobe has no metrics."""
    if failure := line.get("Err_message", "").strip("[]\"'"):  # a list of them since 26.0
        return failure
    statistics = [f"{title} {line[title]}" for title in _STATISTICS if line.get(title)]
    return (
        f"statistics only: {', '.join(statistics)}"
        if statistics
        else "the table holds no metrics of it"
    )


def call_type(call: str) -> str:
    """``linear`` of ``Functional.linear.0.forward``: what was called; of a layer its class."""
    match = _LAYER.fullmatch(call)
    if match is not None:
        direction = match["way"]
        return match["type"] if direction == "forward" else f"{match['type']}.{direction}"
    parts = re.split(r"[._]", call)
    named = [part for part in parts if part and not part.isdecimal()]
    return named[1] if len(named) > 1 else call


def _port(rest: str | None) -> int:
    """The place of a tensor; -1 of one that is called, not numbered."""
    number = (rest or "0").partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 6 else -1


def _metrics(line: Mapping[str, str], shape: tuple[int, ...] | None) -> MetricSet | None:
    """The metrics the line tells, others NaN with a note; None where it tells none."""
    values: dict[Metric, float] = {}
    for title, metric in _NUMBERS.items():
        value = _number(line.get(title, ""))
        if value is not None:
            values[metric] = value
    if not values:
        return None
    deviation = _DEVIATION.fullmatch(line.get("StandardDeviation", ""))
    parts = [] if deviation is None else [_number(part) for part in deviation.groups()]
    spread = [math.nan if part is None else part for part in parts] or [math.nan] * 4
    missing = [metric for metric in Metric if metric not in values]
    if deviation is not None:
        missing.remove(Metric.STANDARD_DEVIATION)
    numbers: dict[str, Any] = {
        metric.value: values.get(metric, math.nan) for metric in METRIC_NUMBERS
    }
    return MetricSet(
        **numbers,
        standard_deviation=(spread[0], spread[1], spread[2], spread[3]),
        elements=math.prod(shape) if shape is not None else 0,
        notes=dict.fromkeys(missing, _NOT_SAID),
    )


def _number(text: str) -> float | None:
    plain = text.strip().removesuffix("%")
    if plain.lower() in ("", "nan", "n/a", "none", "unsupported", "*"):
        return None
    try:
        return float(plain)
    except ValueError:
        return None


def _shape(text: str) -> tuple[int, ...] | None:
    plain = text.strip("[]() ")
    sizes = [size.strip() for size in plain.split(",") if size.strip()]
    if not text.strip("() ").startswith("[") and not sizes:
        return None
    if not all(size.isdecimal() and len(size) < 19 for size in sizes):
        return None
    return tuple(map(int, sizes))
