"""What a filter can ask about an op: the one table for parser, help pages and completion."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum

from graphstore.model import Metric


class Kind(StrEnum):
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
class Field:
    """A field by its canonical ``name``; ``help`` is one line for users."""

    name: str
    aliases: tuple[str, ...]
    kind: Kind
    help: str


_DESCRIPTION = (
    Field("name", (), Kind.PART, "part of the op's name; a bare word means the same"),
    Field("id", ("op",), Kind.TEXT, "the op's id: sub-graph and name"),
    Field("type", ("op_type", "optype"), Kind.TEXT, "op type, as MatMul*"),
    Field("dtype", ("data_type",), Kind.DTYPE, "element type; fp16, half, bf16, float, … work"),
    Field("shape", (), Kind.SHAPE, "dimensions, as *,128,128 or 1x3x224x224; scalar; none"),
    Field("rank", ("dims",), Kind.NUMBER, "number of dimensions"),
    Field("layout", ("format",), Kind.TEXT, "storage layout, as NC1HWC0"),
    Field("ns", ("scope", "namespace"), Kind.SCOPE, "a part or prefix of the op's name space"),
    Field("subgraph", ("graph", "sub"), Kind.TEXT, "sub-graph the op lies in; none: the root"),
    Field("side", (), Kind.CHOICE, "device or golden"),
    Field("topo", (), Kind.NUMBER, "position in topological order"),
    Field("fused", (), Kind.NUMBER, "number of originals in the op; 0: inserted"),
    Field("original", ("orig", "originals"), Kind.PART, "part of the name of an original op"),
)

_RESULT = (
    Field(
        "state",
        (),
        Kind.CHOICE,
        "origin, inherited, drifting, clean, broken, not_compared (or none)",
    ),
    Field("level", (), Kind.CHOICE, "pass, warn, fail or none"),
    Field("over", ("failed",), Kind.METRIC, "a metric over its limit; any; none"),
    Field("from", ("origins",), Kind.TEXT, "an origin the error can come from"),
    Field("reason", ("why",), Kind.PART, "part of why it was not compared; none"),
    Field("output", ("port",), Kind.NUMBER, "port of the worst compared output"),
    Field("gain", (), Kind.NUMBER, "relative error out over the worst one in"),
    Field(
        "role",
        (),
        Kind.CHOICE,
        "introduces, carries, amplifies, attenuates, clean, unknown (or none)",
    ),
    Field("guilt", (), Kind.CHOICE, "guilty, suspect or none"),
    Field("suspicion", ("susp",), Kind.NUMBER, "introduced error over what precision explains"),
    Field("introduced", ("intro",), Kind.NUMBER, "error the op makes itself, on its own inputs"),
    Field("propagated", ("prop",), Kind.NUMBER, "error that its inputs brought"),
    Field("floor", (), Kind.NUMBER, "introduced error the device's precision explains"),
    Field("amplification", ("amp",), Kind.NUMBER, "propagated error over the worst one in"),
)

_METRICS = (
    Field(Metric.COSINE_SIMILARITY, ("cos", "cosine"), Kind.NUMBER, "cosine similarity"),
    Field(Metric.MAX_ABSOLUTE_ERROR, ("maxabs", "max_abs"), Kind.NUMBER, "largest |x - y|"),
    Field(Metric.ACCUMULATED_RELATIVE_ERROR, ("are",), Kind.NUMBER, "sum of |x/y - 1|"),
    Field(
        Metric.RELATIVE_EUCLIDEAN_DISTANCE,
        ("red", "euclid", "rel_euclid"),
        Kind.NUMBER,
        "relative Euclidean distance",
    ),
    Field(
        Metric.KULLBACK_LEIBLER_DIVERGENCE,
        ("kl", "kld"),
        Kind.NUMBER,
        "Kullback-Leibler divergence",
    ),
    Field(
        Metric.STANDARD_DEVIATION, ("std",), Kind.NUMBER, "standard deviation of the device values"
    ),
    Field("golden_std", (), Kind.NUMBER, "standard deviation of the golden values"),
    Field("mean", (), Kind.NUMBER, "mean of the device values"),
    Field("golden_mean", (), Kind.NUMBER, "mean of the golden values"),
    Field(Metric.MEAN_ABSOLUTE_ERROR, ("mae", "meanabs"), Kind.NUMBER, "mean of |x - y|"),
    Field(Metric.ROOT_MEAN_SQUARE_ERROR, ("rmse",), Kind.NUMBER, "root mean square error"),
    Field(Metric.MAX_RELATIVE_ERROR, ("maxrel", "max_rel"), Kind.NUMBER, "largest |x/y - 1|"),
    Field(Metric.MEAN_RELATIVE_ERROR, ("meanrel", "mre"), Kind.NUMBER, "mean of |x/y - 1|"),
)

FIELDS: tuple[Field, ...] = _DESCRIPTION + _RESULT + _METRICS
"""Every field a filter knows, in the order help pages show them."""

_BY_WORD: dict[str, Field] = {
    word: field for field in FIELDS for word in (field.name, *field.aliases)
}


def field_named(word: str) -> Field | None:
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
    word: str, known: dict[str, Field] | tuple[str, ...], limit: int = 3
) -> tuple[str, ...]:
    """Which of the *known* words look like *word*, the nearest first."""
    return tuple(difflib.get_close_matches(normalised(word), known, limit, 0.6))


def normalised(word: str) -> str:
    """A word as the tables have it: lower case, ``_`` for ``-`` and blanks."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")
