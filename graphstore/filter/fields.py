"""What a filter can ask about an op: the one table for parser, help pages and completion."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum

from graphstore.model import Metric


class FieldKind(StrEnum):
    """How a field's values are written and compared."""

    PART = "part of a text"
    TEXT = "text"
    SCOPE = "name space"
    DTYPE = "element type"
    CHOICE = "choice"
    METRIC = "metric name"
    SHAPE = "shape"
    NUMBER = "number"


class Operator(StrEnum):
    """How a field is held against its values."""

    FITS = ":"
    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    REGEX = "~"


@dataclass(frozen=True, slots=True)
class FilterField:
    """A field by its canonical ``name``; ``help`` is one line for users."""

    name: str
    aliases: tuple[str, ...]
    kind: FieldKind
    help: str


_DESCRIPTION = (
    FilterField("name", (), FieldKind.PART, "part of the op's name; a bare word means the same"),
    FilterField("id", ("op",), FieldKind.TEXT, "the op's id: sub-graph and name"),
    FilterField("type", ("op_type", "optype"), FieldKind.TEXT, "op type, as MatMul*"),
    FilterField(
        "dtype", ("data_type",), FieldKind.DTYPE, "element type; fp16, half, bf16, float, … work"
    ),
    FilterField(
        "shape", (), FieldKind.SHAPE, "dimensions, as *,128,128 or 1x3x224x224; scalar; none"
    ),
    FilterField("rank", ("dims",), FieldKind.NUMBER, "number of dimensions"),
    FilterField("layout", ("format",), FieldKind.TEXT, "storage layout, as NC1HWC0"),
    FilterField(
        "ns", ("scope", "namespace"), FieldKind.SCOPE, "a part or prefix of the op's name space"
    ),
    FilterField(
        "subgraph", ("graph", "sub"), FieldKind.TEXT, "sub-graph the op lies in; none: the root"
    ),
    FilterField("side", (), FieldKind.CHOICE, "device or golden"),
    FilterField("topo", (), FieldKind.NUMBER, "position in topological order"),
    FilterField("fused", (), FieldKind.NUMBER, "number of originals in the op; 0: inserted"),
    FilterField(
        "original", ("orig", "originals"), FieldKind.PART, "part of the name of an original op"
    ),
)

_RESULT = (
    FilterField(
        "state",
        (),
        FieldKind.CHOICE,
        "origin, inherited, drifting, clean, broken, not_compared (or none)",
    ),
    FilterField("level", (), FieldKind.CHOICE, "pass, warn, fail or none"),
    FilterField("over", ("failed",), FieldKind.METRIC, "a metric over its limit; any; none"),
    FilterField("from", ("origins",), FieldKind.TEXT, "an origin the error can come from"),
    FilterField("reason", ("why",), FieldKind.PART, "part of why it was not compared; none"),
    FilterField("output", ("port",), FieldKind.NUMBER, "port of the worst compared output"),
    FilterField("gain", (), FieldKind.NUMBER, "relative error out over the worst one in"),
    FilterField(
        "role",
        (),
        FieldKind.CHOICE,
        "introduces, carries, amplifies, attenuates, clean, unknown (or none)",
    ),
    FilterField("guilt", (), FieldKind.CHOICE, "guilty, suspect or none"),
    FilterField(
        "suspicion", ("susp",), FieldKind.NUMBER, "introduced error over what precision explains"
    ),
    FilterField(
        "introduced", ("intro",), FieldKind.NUMBER, "error the op makes itself, on its own inputs"
    ),
    FilterField("propagated", ("prop",), FieldKind.NUMBER, "error that its inputs brought"),
    FilterField("floor", (), FieldKind.NUMBER, "introduced error the device's precision explains"),
    FilterField(
        "amplification", ("amp",), FieldKind.NUMBER, "propagated error over the worst one in"
    ),
)

_METRICS = (
    FilterField(Metric.COSINE_SIMILARITY, ("cos", "cosine"), FieldKind.NUMBER, "cosine similarity"),
    FilterField(
        Metric.MAX_ABSOLUTE_ERROR, ("maxabs", "max_abs"), FieldKind.NUMBER, "largest |x - y|"
    ),
    FilterField(Metric.ACCUMULATED_RELATIVE_ERROR, ("are",), FieldKind.NUMBER, "sum of |x/y - 1|"),
    FilterField(
        Metric.RELATIVE_EUCLIDEAN_DISTANCE,
        ("red", "euclid", "rel_euclid"),
        FieldKind.NUMBER,
        "relative Euclidean distance",
    ),
    FilterField(
        Metric.KULLBACK_LEIBLER_DIVERGENCE,
        ("kl", "kld"),
        FieldKind.NUMBER,
        "Kullback-Leibler divergence",
    ),
    FilterField(
        Metric.STANDARD_DEVIATION,
        ("std",),
        FieldKind.NUMBER,
        "standard deviation of the device values",
    ),
    FilterField("golden_std", (), FieldKind.NUMBER, "standard deviation of the golden values"),
    FilterField("mean", (), FieldKind.NUMBER, "mean of the device values"),
    FilterField("golden_mean", (), FieldKind.NUMBER, "mean of the golden values"),
    FilterField(
        Metric.MEAN_ABSOLUTE_ERROR, ("mae", "meanabs"), FieldKind.NUMBER, "mean of |x - y|"
    ),
    FilterField(
        Metric.ROOT_MEAN_SQUARE_ERROR, ("rmse",), FieldKind.NUMBER, "root mean square error"
    ),
    FilterField(
        Metric.MAX_RELATIVE_ERROR, ("maxrel", "max_rel"), FieldKind.NUMBER, "largest |x/y - 1|"
    ),
    FilterField(
        Metric.MEAN_RELATIVE_ERROR, ("meanrel", "mre"), FieldKind.NUMBER, "mean of |x/y - 1|"
    ),
)

FIELDS: tuple[FilterField, ...] = _DESCRIPTION + _RESULT + _METRICS
"""Every field a filter knows, in the order help pages show them."""

_BY_WORD: dict[str, FilterField] = {
    word: field for field in FIELDS for word in (field.name, *field.aliases)
}


def field_named(word: str) -> FilterField | None:
    """The field with this name or alias, in any case, with ``-`` for ``_``."""
    return _BY_WORD.get(normalised(word))


def metric_named(word: str) -> Metric | None:
    """The metric with this name or alias."""
    field = field_named(word)
    return Metric(field.name) if field and field.name in Metric.__members__.values() else None


def near_misses(word: str, limit: int = 3) -> tuple[str, ...]:
    """Field names and aliases that look like *word*, the nearest first; for hints."""
    return close_words(word, _BY_WORD, limit)


def close_words(
    word: str, known: dict[str, FilterField] | tuple[str, ...], limit: int = 3
) -> tuple[str, ...]:
    """Which of the *known* words look like *word*, the nearest first."""
    return tuple(difflib.get_close_matches(normalised(word), known, limit, 0.6))


def normalised(word: str) -> str:
    """A word as the tables have it: lower case, ``_`` for ``-`` and blanks."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")
