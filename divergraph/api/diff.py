"""Dump against dump, without any graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from divergraph.api.arguments import AnyPath, optional_path, workers_of
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.rows import Rows
from divergraph.dump_diff.diff_dumps import DiffRequest, DiffResult, PairDiff, diff_dumps, reasons
from divergraph.dump_diff.single_pair import CloseLook, look_closely
from divergraph.text.words import counted
from divergraph.thresholds.verdicts import badness
from graphstore.errors import InputError
from graphstore.model import DType, Level, Metric, MetricSet, Reason
from importers.dumps.contract import RawForm
from importers.dumps.decode import can_decode

_LEVELS = list(Level)


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A pair as a row of a table; ``limit`` says which rule decided its level."""

    name: str
    level: Level | None
    metrics: MetricSet | None
    failed: tuple[Metric, ...]
    limit: str
    reason: Reason | None
    detail: str
    shape: tuple[int, ...] | None
    device_dtype: DType | None
    golden_dtype: DType | None
    device: Path
    golden: Path


@dataclass(frozen=True, slots=True, repr=False)
class DumpDiff:
    """The comparison of two dumps. ``look`` has the elements if there is only one pair; ``result``
    also has the limits."""

    result: DiffResult
    look: CloseLook | None = None

    @property
    def pairs(self) -> tuple[PairDiff, ...]:
        """Each pair with its metrics and level, or the reason why it has none."""
        return self.result.pairs

    @property
    def rows(self) -> Rows[DiffRow]:
        """The pairs as a table."""
        return Rows(DiffRow, map(_row, self.pairs))

    @property
    def device_only(self) -> tuple[str, ...]:
        """Names that are on the device's side only."""
        return self.result.device_only

    @property
    def golden_only(self) -> tuple[str, ...]:
        """Names that are on the golden side only."""
        return self.result.golden_only

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on files that were skipped."""
        return self.result.notes

    @property
    def compared(self) -> int:
        """Pairs that were measured."""
        return self.result.compared

    @property
    def over(self) -> int:
        """Pairs over a limit."""
        return self.result.over

    def worst(self, count: int) -> list[PairDiff]:
        """The *count* measured pairs that differ most, the worst first."""
        measured = [pair for pair in self.pairs if pair.found.metrics is not None]
        return sorted(measured, key=_badness, reverse=True)[:count]

    def reasons(self) -> list[tuple[Reason, int]]:
        """Why pairs could not be measured and how many, the most frequent reason first."""
        return reasons(self.pairs).most_common()

    def _repr_html_(self) -> str:
        return self.rows._repr_html_()

    def __repr__(self) -> str:
        return f"<DumpDiff: {counted(len(self.pairs), 'pair')}, {self.over} over a limit>"


def diff(
    device: AnyPath,
    golden: AnyPath,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    tensor: str | None = None,
    thresholds: AnyPath | None = None,
    dtype: str | None = None,
    shape: Sequence[int] | str | None = None,
    first: int = 20,
    top: int = 10,
    jobs: int | None = None,
    cluster: str | None = None,
    resume: bool = True,
    progress: ProgressOption = None,
) -> DumpDiff:
    """Compare two tensors, or two folders of them paired by name.

    Files may be .npy, .npz, .pt, Ascend dumps, TensorFlow debugger and msprobe folders,
    Polygraphy JSON, or raw .bin, of which *dtype* and *shape* say what they hold. With *atol* or
    *rtol* an element is bad if ``|device - golden| > atol + rtol * |golden|`` (0.001 for the one
    not given), and a pair with a bad element is over its limit; without, *thresholds* decide.
    *tensor* is a pattern of names. Of a single pair ``look`` has the *first* bad elements and
    the *top* largest errors. *jobs*, *cluster* and *resume* are those of ``compare``.

    Raises:
        InputError: a path cannot be used, or no name is on both sides.

    >>> import divergraph as dg
    >>> import numpy as np
    >>> np.save("golden.npy", np.ones(4, np.float32))
    >>> np.save("device.npy", np.array([1, 1, 1, 1.5], np.float32))
    >>> found = dg.diff("device.npy", "golden.npy", atol=0.1)
    >>> found
    <DumpDiff: 1 pair, 1 over a limit>
    >>> [(element.index, element.device) for element in found.look.table.first_bad]
    [((3,), 1.5)]
    """
    request = DiffRequest(
        Path(device),
        Path(golden),
        optional_path(thresholds),
        atol,
        rtol,
        tensor,
        raw_form(dtype, shape),
        workers_of(jobs, cluster, resume=resume),
    )
    with telling(progress) as reporting:
        result = diff_dumps(request, reporting)
        if len(result.pairs) != 1:
            return DumpDiff(result)
        reporting.stage("looking at every element")
        look = look_closely(
            result.pairs[0], result.wanted, first=first, top=top, workers=request.workers
        )
    return DumpDiff(result, look)


def _row(pair: PairDiff) -> DiffRow:
    measurement = pair.found
    return DiffRow(
        pair.name, pair.level, measurement.metrics, pair.failed, pair.limit,
        measurement.reason, measurement.detail, measurement.shape,
        measurement.device_dtype, measurement.golden_dtype, pair.device, pair.golden,
    )  # fmt: skip


def _badness(pair: PairDiff) -> tuple[int, int, float, float]:
    assert pair.found.metrics is not None
    level = 0 if pair.level is None else _LEVELS.index(pair.level)
    return level, *badness(pair.found.metrics, pair.level)


def raw_form(dtype: str | None, shape: Sequence[int] | str | None) -> RawForm:
    """What the user says of raw files.

    Raises:
        InputError: no such type, or no shape.
    """
    if dtype is None:
        if shape is not None:
            raise InputError("--shape needs --dtype", hint="say the element type of raw files")
        return RawForm()
    dtypes = [dtype.value for dtype in DType if can_decode(dtype) and dtype.bits]
    if dtype not in dtypes:
        raise InputError(f"--dtype {dtype}: no such type", hint=f"one of {', '.join(dtypes)}")
    if shape is None:
        return RawForm(DType(dtype))
    if not isinstance(shape, str):
        return RawForm(DType(dtype), tuple(shape))
    parts = shape.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--shape {shape}: not a shape", hint="sizes with commas: 1,3,224,224")
    return RawForm(DType(dtype), tuple(map(int, parts)))
