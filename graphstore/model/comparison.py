"""Results of comparing dumps: metrics, levels, states, origins and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from graphstore.model.analysis import RunAnalysis
from graphstore.model.conclusion import RunBlame, RunResult
from graphstore.model.dtypes import DType
from graphstore.model.dumps import TensorIO
from graphstore.model.figures import Figures
from graphstore.model.graph import TensorRef
from graphstore.model.lineage import LineageRule
from graphstore.model.root_cause import ErrorSplit


class Metric(StrEnum):
    """The ten metrics, in the column order of the result CSV. Lower is better but for cosine.

    A metric is a row here, a field of :class:`MetricSet` and a kernel in
    ``divergraph.metrics.metrics``; columns, filters and labels everywhere follow.
    """

    label: str
    """For narrow columns and plots."""
    short: str
    """For lists of metrics over their limits."""
    words: str
    aliases: str
    """What filters call it beside its name."""
    formula: str

    def __new__(  # noqa: D102 - the row
        cls,
        name: str,
        label: str = "",
        short: str = "",
        words: str = "",
        aliases: str = "",
        formula: str = "",
    ) -> Metric:
        member = str.__new__(cls, name)
        member._value_ = name
        member.label, member.short, member.words = label, short, words
        member.aliases, member.formula = aliases, formula
        return member

    COSINE_SIMILARITY = (
        *("cosine_similarity", "cosine", "cos"),
        *("cosine similarity", "cos cosine", "cosine similarity"),
    )
    MAX_ABSOLUTE_ERROR = (
        *("max_absolute_error", "max |Δ|", "max"),
        *("max absolute error", "maxabs max_abs", "largest |x - y|"),
    )
    ACCUMULATED_RELATIVE_ERROR = (
        *("accumulated_relative_error", "accumulated relative error", "acc"),
        *("accumulated relative error", "are", "sum of |x/y - 1|"),
    )
    RELATIVE_EUCLIDEAN_DISTANCE = (
        *("relative_euclidean_distance", "relative error", "rel", "relative Euclidean distance"),
        *("red euclid rel_euclid", "relative Euclidean distance"),
    )
    KULLBACK_LEIBLER_DIVERGENCE = (
        *("kullback_leibler_divergence", "KL divergence", "KL", "Kullback-Leibler divergence"),
        *("kl kld", "Kullback-Leibler divergence"),
    )
    STANDARD_DEVIATION = (
        *("standard_deviation", "mean; std", "std"),
        *("mean; std, device", "std", "standard deviation of the device values"),
    )
    MEAN_ABSOLUTE_ERROR = (
        *("mean_absolute_error", "mean |Δ|", "MAE"),
        *("mean absolute error", "mae meanabs", "mean of |x - y|"),
    )
    ROOT_MEAN_SQUARE_ERROR = (
        *("root_mean_square_error", "RMS error", "RMSE"),
        *("root mean square error", "rmse", "root mean square error"),
    )
    MAX_RELATIVE_ERROR = (
        *("max_relative_error", "max relative error", "maxrel"),
        *("max relative error", "maxrel max_rel", "largest |x/y - 1|"),
    )
    MEAN_RELATIVE_ERROR = (
        *("mean_relative_error", "mean relative error", "meanrel"),
        *("mean relative error", "meanrel mre", "mean of |x/y - 1|"),
    )


METRIC_NUMBERS = tuple(metric for metric in Metric if metric is not Metric.STANDARD_DEVIATION)
"""The metrics of one number."""
TELLING_METRICS = (
    Metric.COSINE_SIMILARITY,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
    Metric.MAX_ABSOLUTE_ERROR,
)
"""Those that people look at first."""


SHAPES_DIFFER = "the shapes differ"
"""The note of all metrics where they do."""


@dataclass(frozen=True, slots=True)
class MetricSet:
    """The ten metrics of one tensor pair, x the device side, y the golden side.

    Floats may be NaN or infinite; ``notes`` then says why, by metric (also for values
    that are by definition, such as a scalar's cosine of 1). ``standard_deviation`` is
    (mean of x, std of x, mean of y, std of y), population std.
    ``different`` counts unequal elements of two boolean tensors, 0 for other types.
    """

    cosine_similarity: float
    max_absolute_error: float
    accumulated_relative_error: float
    relative_euclidean_distance: float
    kullback_leibler_divergence: float
    standard_deviation: tuple[float, float, float, float]
    mean_absolute_error: float
    root_mean_square_error: float
    max_relative_error: float
    mean_relative_error: float
    elements: int = 0
    device_nonfinite: int = 0
    golden_nonfinite: int = 0
    different: int = 0
    notes: Mapping[Metric, str] = field(default_factory=dict)

    def value(self, metric: Metric) -> float | tuple[float, float, float, float]:
        """The value of one metric by its name."""
        result: float | tuple[float, float, float, float] = getattr(self, metric.value)
        return result

    @property
    def shapes_differ(self) -> bool:
        """Whether the sides have other shapes, so that no value can be held against another: the
        relative error is infinite, all else NaN."""
        return self.notes.get(Metric.RELATIVE_EUCLIDEAN_DISTANCE) == SHAPES_DIFFER


class Level(StrEnum):
    """The level of one compared tensor by the thresholds."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


class Reason(StrEnum):
    """Why a tensor was not compared; every device tensor without metrics carries one."""

    INSERTED = "inserted"
    """The compiler added the op: it stands for no original tensor."""
    NO_ORIGINAL = "no_original"
    """The graph names no original output for this tensor."""
    INNER_OF_SPLIT = "inner_of_split"
    """An inner part of an original that was split over several device ops."""
    ADDEND = "addend"
    """One rank's addend of a golden tensor: only the sum over ranks is golden's."""
    NO_OUTPUT = "no_output"
    """The op has no output tensor (port -1 stands for the op as a whole)."""
    NO_TASK = "no_task"
    """The op runs no task on the device (Data, Const, ...), so it is never dumped."""
    NO_DEVICE_DUMP = "no_device_dump"
    NO_GOLDEN_DUMP = "no_golden_dump"
    UNKNOWN_ORIGINAL = "unknown_original"
    """The named original op is not in the golden graph."""
    UNMATCHED = "unmatched"
    """Neither names nor values nor re-run originals tell a counterpart; there may be one."""
    LOW_CONFIDENCE = "low_confidence"
    """A golden tensor may be the counterpart, but the evidence is too weak to compare."""
    AMBIGUOUS_DUMP = "ambiguous_dump"
    """A dump file's name fits several ops and nothing tells them apart."""
    QUANTISED = "quantised"
    """The device holds quantised integers where the golden side holds real numbers."""
    SHAPE_MISMATCH = "shape_mismatch"
    LAYOUT_UNSUPPORTED = "layout_unsupported"
    DTYPE_UNSUPPORTED = "dtype_unsupported"
    UNREADABLE_DUMP = "unreadable_dump"
    """The dump file is damaged: cut, of a wrong size, not what its name says."""
    STATISTICS_ONLY = "statistics_only"
    """A dump holds statistics instead of values, and the sides have none in common."""


class OpState(StrEnum):
    """The state of an op in a run; the same words and marks in every front end."""

    ORIGIN = "origin"
    INHERITED = "inherited"
    DRIFTING = "drifting"
    EXPLAINED = "explained"
    """Past a limit or warning level, and no more than the precision of the ops explains."""
    CLEAN = "clean"
    BROKEN = "broken"
    NOT_COMPARED = "not compared"


class Verdict(StrEnum):
    """The verdict on a run."""

    CLEAN = "clean"
    WITHIN_ROUNDING = "within_rounding"
    """Tensors are over a limit or near it, and no op makes more error than rounding explains."""
    DIVERGED = "diverged"
    UNDECIDED = "undecided"
    """No answer can be right; ``analysis.doubt`` says why, and what to do."""
    INPUTS_DIFFER = "inputs_differ"
    """The sides were fed different inputs; ``analysis.mismatches`` lists them."""
    LAYOUTS_DIFFER = "layouts_differ"
    """The sides split the job differently over their ranks, so their tensors are different ones."""
    NOT_COMPARED = "not_compared"

    @classmethod
    def _missing_(cls, value: object) -> Verdict | None:
        """Runs kept before 0.2 call WITHIN_ROUNDING ``noise``."""
        return cls.WITHIN_ROUNDING if value == "noise" else None


class Method(StrEnum):
    """How origins were found."""

    THRESHOLDS = "thresholds"
    ROOT_CAUSE = "root-cause"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One device tensor of a run: its metrics, or the reason why it has none.

    ``op`` is the device op's id; ``port`` is -1 for an op without any output.
    ``golden`` is the original tensor it is held against,
    ``rule`` the evidence for that. ``shape`` is the compared (golden) shape.
    ``failed`` lists the metrics over their limit, worst level in ``level``.
    ``overflow`` is set for float16 (some |x| reached 65504), and True for every output
    of an op for which the device recorded an overflow. ``detail`` says more of the
    reason, or of how the metrics were found where it was not from all values.
    ``limit`` names the threshold rule that decided the level. ``split`` is set for outputs
    by the root-cause analysis.
    """

    op: str
    io: TensorIO
    port: int
    golden: TensorRef | None = None
    rule: LineageRule | None = None
    metrics: MetricSet | None = None
    level: Level | None = None
    failed: tuple[Metric, ...] = ()
    reason: Reason | None = None
    detail: str = ""
    shape: tuple[int, ...] | None = None
    device_dtype: DType | None = None
    golden_dtype: DType | None = None
    device_path: str = ""
    golden_path: str = ""
    address: int | None = None
    overflow: bool | None = None
    figures: Figures | None = None
    split: ErrorSplit | None = None
    limit: str = ""

    @property
    def compared(self) -> bool:
        """True if metrics were computed."""
        return self.metrics is not None

    @property
    def over(self) -> bool:
        """True if some metric is over its limit."""
        return self.level is Level.FAIL

    @property
    def misshapen(self) -> bool:
        """True if the device's shape is not golden's, whether that was judged or not."""
        if self.metrics is None:
            return self.reason is Reason.SHAPE_MISMATCH
        return self.metrics.shapes_differ


@dataclass(frozen=True, slots=True)
class Origin:
    """An op where an error starts: over the limit, its nearest measured ancestors not.

    ``golden`` holds the original tensor the output was held against first, then the
    other originals inside the op with port -1. ``suspicion`` and ``cause`` are None
    until root-cause analysis has run.
    """

    rank: int
    op: str
    type: str
    output: int
    golden: tuple[TensorRef, ...]
    metrics: MetricSet
    level: Level
    suspicion: float | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of a run: device ops, their tensors, and how many were compared or over."""

    ops: int
    tensors: int
    compared: int
    over: int
    not_compared: int


@dataclass(frozen=True, slots=True)
class Run:
    """A finished comparison. ``golden`` and ``device`` are graph ids; ``created`` is
    an ISO 8601 UTC time; ``inputs`` keeps the paths and options it was made with.
    ``analysis`` is what the analyses say of the run as a whole. ``result`` and ``blame`` are the
    two answers that the verdict sums up: are the model's outputs damaged, and who did it?"""

    name: str
    golden: str
    device: str
    created: str
    verdict: Verdict
    method: Method
    counts: Counts
    thresholds: Mapping[str, float]
    inputs: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    version: str = ""
    analysis: RunAnalysis = field(default_factory=RunAnalysis)
    result: RunResult = field(default_factory=RunResult)
    blame: RunBlame = field(default_factory=RunBlame)
