"""The rows of a table of results as tensors with metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphstore.model import DType, Metric, MetricSet, TensorIO
from importers.number_formats import named_dtype
from importers.results.table import ResultKind, ResultTable

_NO_ORIGINAL = "*"
_INDEX = re.compile(r"(?P<op>.*):(?P<io>input|output):(?P<port>\d{1,5})")
_CALL = re.compile(
    r"(?P<op>.+?)[._](?P<io>input|output|parameters_grad|parameters)(?:[._](?P<rest>.+))?"
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
"""The titles of both tools' columns that are ours. msprobe's EucDist is absolute: it is none."""

_STATISTICS = ("Max diff", "Min diff", "Mean diff", "L2norm diff", "Result")
_DEVIATION = re.compile(r"\(\s*(.+?);\s*(.+?)\),\s*\(\s*(.+?);\s*(.+?)\)")
_NOT_SAID = "the table does not say"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One tensor of a table. ``originals`` are empty for an inserted op; ``failure`` says why there
    are no metrics; ``remark`` is the table's own verdict."""

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


def result_rows(table: ResultTable) -> Iterator[ResultRow]:
    """The tensors of *table* in its order."""
    read = _msaccucmp if table.kind is ResultKind.MSACCUCMP else _msprobe
    for line in table.lines:
        row = read(line)
        if row is not None:
            yield row


def _msaccucmp(line: Mapping[str, str]) -> ResultRow | None:
    device = line.get("NPUDump") or line.get("LeftOp") or ""
    golden = line.get("GroundTruth") or line.get("RightOp") or ""
    told = _INDEX.fullmatch(line.get("TensorIndex", ""))
    if not device or device == "NaN":
        return None
    shape = _shape(line.get("Shape", ""))
    metrics = _metrics(line, shape)
    originals = () if golden in (_NO_ORIGINAL, "NaN", "") else tuple(golden.split(","))
    return ResultRow(
        device,
        line.get("OpType", ""),
        TensorIO(told["io"]) if told else TensorIO.OUTPUT,
        int(told["port"]) if told else -1,
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
    told = _CALL.fullmatch(name)
    if not name or name == "N/A":
        return None
    shape = _shape(line.get("NPU Tensor Shape", ""))
    # of statistics alone the table tells errors of maxima and means, which are no metrics
    metrics = _metrics(line, shape) if "Cosine" in line else None
    reached = line.get("Accuracy Reached or Not") or line.get("Result") or ""
    io = TensorIO.INPUT if told and told["io"] == "input" else TensorIO.OUTPUT
    other = _CALL.fullmatch(golden)
    return ResultRow(
        told["op"] if told else name,
        _call_type(told["op"] if told else name),
        io,
        _port(told["rest"] if told else None),
        () if golden in ("", "N/A") else (other["op"] if other else golden,),
        shape,
        named_dtype(line.get("NPU Tensor Dtype") or line.get("NPU Dtype", "")),
        named_dtype(line.get("Bench Tensor Dtype") or line.get("Bench Dtype", "")),
        metrics,
        None,
        _failure(line) if metrics is None else "",
        f"msprobe: {reached}" if reached else "",
    )


def _failure(line: Mapping[str, str]) -> str:
    """Why a line of msprobe has no metrics."""
    if said := line.get("Err_message"):
        return said
    told = [f"{title} {line[title]}" for title in _STATISTICS if line.get(title)]
    return f"statistics only: {', '.join(told)}" if told else "the table holds no metrics of it"


def _call_type(call: str) -> str:
    """``linear`` of ``Functional.linear.0.forward``: what was called."""
    parts = re.split(r"[._]", call)
    named = [part for part in parts if part and not part.isdecimal()]
    return named[1] if len(named) > 1 else call


def _port(rest: str | None) -> int:
    """The place of a tensor; a weight's gradient is called, not numbered."""
    number = (rest or "0").partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 6 else 0


def _metrics(line: Mapping[str, str], shape: tuple[int, ...] | None) -> MetricSet | None:
    """The metrics the line tells, others NaN with a note; None where it tells none."""
    told: dict[Metric, float] = {}
    for title, metric in _NUMBERS.items():
        value = _number(line.get(title, ""))
        if value is not None:
            told[metric] = value
    if not told:
        return None
    deviation = _DEVIATION.fullmatch(line.get("StandardDeviation", ""))
    parts = [] if deviation is None else [_number(part) for part in deviation.groups()]
    spread = [math.nan if part is None else part for part in parts] or [math.nan] * 4
    missing = [metric for metric in Metric if metric not in told]
    if deviation is not None:
        missing.remove(Metric.STANDARD_DEVIATION)
    of = {metric: told.get(metric, math.nan) for metric in Metric}
    return MetricSet(
        of[Metric.COSINE_SIMILARITY],
        of[Metric.MAX_ABSOLUTE_ERROR],
        of[Metric.ACCUMULATED_RELATIVE_ERROR],
        of[Metric.RELATIVE_EUCLIDEAN_DISTANCE],
        of[Metric.KULLBACK_LEIBLER_DIVERGENCE],
        (spread[0], spread[1], spread[2], spread[3]),
        of[Metric.MEAN_ABSOLUTE_ERROR],
        of[Metric.ROOT_MEAN_SQUARE_ERROR],
        of[Metric.MAX_RELATIVE_ERROR],
        of[Metric.MEAN_RELATIVE_ERROR],
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
