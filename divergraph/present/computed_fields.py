"""Values of JSON that no record has as it is: the functions that ``answers.txt`` names."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from divergraph.present.json_text import Json, number, plain_json
from divergraph.text.numbers import deviation_text, odd_word
from divergraph.text.words import excuse_text, observed_text, reserve_text
from graphstore.model import Comparison, ErrorSplit, Figures, Finding, Metric, MetricSet, TensorIO

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from divergraph.blame.attribution import Blame
    from divergraph.dump_diff.diff_dumps import DiffResult
    from divergraph.dump_diff.elements import Element
    from divergraph.dump_diff.value_parts import ValueSlice
    from divergraph.metrics.pairs.measurement import Measurement
    from graphstore.op_row import OpRow

_METRIC_NAMES = tuple(metric.value for metric in Metric)
_metric_values = attrgetter(*_METRIC_NAMES)


def metrics_json(metrics: MetricSet) -> dict[str, Json]:
    """The ten metrics by name; ``standard_deviation`` is its text form."""
    shape: dict[str, Json] = {}
    for name, value in zip(_METRIC_NAMES, _metric_values(metrics), strict=True):
        if isinstance(value, tuple):
            finite = all(math.isfinite(part) for part in value)
            shape[name] = deviation_text(value) if finite else None
        else:
            shape[name] = value if math.isfinite(value) else None
    return shape


def metric_notes(metrics: MetricSet | None) -> dict[str, Json]:
    """Why a metric is null or what it is by definition, by metric name."""
    if metrics is None or not (metrics.notes or _has_odd(metrics)):
        return {}
    notes: dict[str, Json] = {}
    for metric in Metric:
        value = metrics.value(metric)
        parts = value if isinstance(value, tuple) else (value,)
        nonfinite = next((part for part in parts if not math.isfinite(part)), None)
        note = metrics.notes.get(metric, "")
        if nonfinite is not None:
            kind = "NaN" if math.isnan(nonfinite) else "Inf"
            notes[metric.value] = f"{kind}: {note}" if note else kind
        elif note:
            notes[metric.value] = note
    return notes


def _has_odd(metrics: MetricSet) -> bool:
    """True if some metric is NaN or infinite; may also be true if their sum overflows."""
    values = _metric_values(metrics)
    return not math.isfinite(sum(sum(part) if isinstance(part, tuple) else part for part in values))


def index_of(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index in *shape* of a place counted in C order."""
    index: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.append(at)
    return tuple(reversed(index))


def _place(name: str) -> Callable[[Comparison | Measurement], Json]:
    """What gives a place among the figures of a pair as an index of the compared shape."""

    def index(pair: Comparison | Measurement) -> Json:
        place = -1 if pair.figures is None else getattr(pair.figures, name)
        return None if place < 0 or pair.shape is None else list(index_of(place, pair.shape))

    return index


def _figures(pair: Comparison | Measurement) -> Json:
    """What a sweep tells beside the metrics; places as indices."""
    from divergraph.present.declared_answer import answer_json

    figures: Figures | None = pair.figures
    if figures is None:
        return None
    places = {name: _place(name)(pair) for name in ("first_bad", "worst")}
    return answer_json(figures) | places


def _output(item: Comparison | Finding) -> Json:
    return item.port if item.io is TensorIO.OUTPUT and item.port >= 0 else None


def _input(item: Comparison | Finding) -> Json:
    return item.port if item.io is TensorIO.INPUT else None


def _infinite(split: ErrorSplit) -> Json:
    return [name for name, value in split.numbers.items() if value == math.inf]


def _odd_values(element: Element) -> Json:
    values = {
        "device": element.device,
        "golden": element.golden,
        "absolute_error": element.absolute,
        "relative_error": element.relative,
    }
    words = {name: odd_word(value) for name, value in values.items() if value is not None}
    return {name: word for name, word in words.items() if word}


def _nonfinite(part: ValueSlice) -> Json:
    sides = {"device": part.device, "golden": part.golden}
    return {
        f"{side} {place}": str(value)
        for side, values in sides.items()
        for place, value in enumerate(values.reshape(-1).tolist())
        if not math.isfinite(value)
    }


def _unpaired(result: DiffResult) -> Json:
    sides = (("device", result.device_only), ("golden", result.golden_only))
    return [{"side": side, "name": name} for side, names in sides for name in names]


def _outputs(blame: Blame) -> Json:
    return [
        {
            "tensor": name,
            "part": blame.parts.get(name),
            "error": number(error),
            "stands_in": name in blame.stand_ins,
        }
        for name, error in blame.errors.items()
    ]


def _detection_type(advice: Advice) -> Json:
    from divergraph.present.advice_text import detection_type

    return detection_type(advice.first)


def _operator_index(advice: Advice) -> Json:
    from divergraph.present.advice_text import operator_index

    return operator_index(advice.first)


def _sorted(counts: Mapping[int, int]) -> Json:
    return {str(name): count for name, count in sorted(counts.items())}


@lru_cache(maxsize=1024)
def origins_key(origins: tuple[str, ...]) -> str | None:
    """What stands for some origins in a list of ops, None for no origins: the same in all lists."""
    if not origins:
        return None
    return hashlib.sha256("\0".join(origins).encode(errors="surrogateescape")).hexdigest()[:12]


def origins_by_key(rows: Iterable[OpRow]) -> dict[str, Json]:
    """The origins of ops, those of many ops once, by their keys."""
    return {
        key: list(origins)
        for origins in dict.fromkeys(row.origins for row in rows)
        if (key := origins_key(origins)) is not None
    }


def _named(names: Sequence[str]) -> Callable[[Iterable[Any]], Json]:
    """What makes objects of pairs of values."""
    return lambda pairs: [dict(zip(names, map(plain_json, pair), strict=True)) for pair in pairs]


COMPUTED: Mapping[str, Callable[[Any], Json]] = {
    "count": len,
    "detection_type": _detection_type,
    "excuse": excuse_text,
    "failed": _named(("path", "reason")),
    "figures": _figures,
    "infinite": _infinite,
    "input": _input,
    "kept_name": lambda dump: dump.name if dump.kept else None,
    "names": lambda items: [getattr(item, "name", item) for item in items],
    "nonfinite": _nonfinite,
    "not": lambda value: not value,
    "notes": metric_notes,
    "numbers": lambda array: [number(value) for value in array.reshape(-1).tolist()],
    "observed": observed_text,
    "odd_values": _odd_values,
    "operator_index": _operator_index,
    "output": _output,
    "origins_by_key": origins_by_key,
    "origins_key": origins_key,
    "outputs": _outputs,
    "first": lambda values: values[0] if values else None,
    "places": _named(("op", "places")),
    "reserve": reserve_text,
    "seconds": lambda value: round(value, 3),
    "shares": lambda shares: _named(("tensor", "share"))(shares.items()),
    "sorted": _sorted,
    "sure": lambda confidence: confidence > 1,
    "text": str,
    "unpaired": _unpaired,
    "unread": _named(("tensor", "why")),
}
"""The functions by name: each takes the value at which it is named and returns JSON."""
