"""What a filter can ask about an op: the one table for parser, help pages and completion."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum

from graphstore.model import Metric, OpState


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


_PART, _TEXT, _SCOPE, _DTYPE, _CHOICE, _METRIC, _SHAPE, _NUMBER = FieldKind


def _field(name: str, aliases: str, kind: FieldKind, says: str) -> FilterField:
    return FilterField(name, tuple(aliases.split()), kind, says)


_DESCRIPTION = (
    _field("any", "", _PART, "part of the op's name or an original's; a bare word means the same"),
    _field("name", "", _PART, "part of the op's name"),
    _field("id", "op", _TEXT, "the op's id: sub-graph and name"),
    _field("type", "op_type optype", _TEXT, "op type, as MatMul*"),
    _field("dtype", "data_type", _DTYPE, "element type; fp16, half, bf16, float, … work"),
    _field("shape", "", _SHAPE, "dimensions, as *,128,128 or 1x3x224x224; scalar; none"),
    _field("rank", "dims", _NUMBER, "number of dimensions"),
    _field("on_rank", "job_rank", _TEXT, "a rank of a job that calls the op, as 1"),
    _field("layout", "format", _TEXT, "storage layout, as NC1HWC0"),
    _field("ns", "scope namespace", _SCOPE, "a part or prefix of the op's name space"),
    _field("subgraph", "graph sub", _TEXT, "sub-graph the op lies in; none: the root"),
    _field("side", "", _CHOICE, "device or golden"),
    _field("topo", "", _NUMBER, "position in topological order"),
    _field("fused", "", _NUMBER, "number of originals in the op; 0: inserted"),
    _field("original", "orig originals", _PART, "part of the name of an original op"),
    _field(
        "attr",
        "attribute attrs",
        _PART,
        "part of an op's attribute, as pads or pads=[0,0,1,1]; dtype, shape and layout of its "
        "tensors are fields of their own",
    ),
)

_STATES = ", ".join(state.value.replace(" ", "_") for state in OpState)
_RESULT = (
    _field("state", "", _CHOICE, f"{_STATES} (or none)"),
    _field("level", "", _CHOICE, "pass, warn, fail or none"),
    _field("over", "failed", _METRIC, "a metric over its limit; any; none"),
    _field("from", "origins", _TEXT, "an origin the error can come from"),
    _field("reason", "why", _PART, "part of why it was not compared; none"),
    _field("output", "port", _NUMBER, "port of the worst compared output"),
    _field("gain", "", _NUMBER, "relative error out over the worst one in"),
    _field(
        "role", "", _CHOICE, "introduces, carries, amplifies, attenuates, clean, unknown (or none)"
    ),
    _field("guilt", "", _CHOICE, "guilty, suspect or none"),
    _field("suspicion", "susp", _NUMBER, "introduced error over what precision explains"),
    _field("introduced", "intro", _NUMBER, "error the op makes itself, on its own inputs"),
    _field("propagated", "prop", _NUMBER, "error that its inputs brought"),
    _field("floor", "", _NUMBER, "introduced error the device's precision explains"),
    _field("amplification", "amp", _NUMBER, "propagated error over the worst one in"),
)

_SPREAD = (
    _field("golden_std", "", _NUMBER, "standard deviation of the golden values"),
    _field("mean", "", _NUMBER, "mean of the device values"),
    _field("golden_mean", "", _NUMBER, "mean of the golden values"),
)
_METRICS = tuple(
    field
    for metric in Metric
    for field in (
        _field(metric, metric.aliases, _NUMBER, metric.formula),
        *(_SPREAD if metric is Metric.STANDARD_DEVIATION else ()),
    )
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


def near_misses(word: str) -> tuple[str, ...]:
    """Up to three field names and aliases that look like *word*, the nearest first; for hints."""
    return close_words(word, _BY_WORD)


def close_words(
    word: str, words: dict[str, FilterField] | tuple[str, ...], limit: int = 3
) -> tuple[str, ...]:
    """Which of *words* look like *word*, the nearest first."""
    return tuple(difflib.get_close_matches(normalised(word), words, limit, 0.6))


def normalised(word: str) -> str:
    """A word as the tables have it: lower case, ``_`` for ``-`` and blanks."""
    return word.strip().lower().replace("-", "_").replace(" ", "_")
