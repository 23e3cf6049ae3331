"""The JSON of ``divergraph diff``; documented in docs/reference/json.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from divergraph.dump_diff.diff_dumps import DiffResult, PairDiff
from divergraph.dump_diff.elements import Element, ElementTable
from divergraph.dump_diff.single_pair import CloseLook
from divergraph.metrics.inspection import Inspection
from divergraph.present.json.shapes import Json, metrics_json, notes_json, number, record_json
from divergraph.text.numbers import odd_word
from graphstore.model import Figures


def diff_json_text(result: DiffResult, look: CloseLook | None) -> Iterator[str]:
    """What ``diff --json`` prints, line by line; ``elements`` is null but for a single pair. There
    may be many thousands of pairs, so each is one line, which takes half of the time and space."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    yield '{\n  "pairs": ['
    last = len(result.pairs) - 1
    for place, pair in enumerate(result.pairs):
        yield f"    {encode(_pair_json(pair))}{',' if place < last else ''}"
    rest = _rest_json(result, look)
    yield "  ]," + json.dumps(rest, indent=2, ensure_ascii=False, allow_nan=False)[1:]


def _rest_json(result: DiffResult, look: CloseLook | None) -> dict[str, Json]:
    return {
        "unpaired": [
            {"side": side, "name": name}
            for side, names in (("device", result.device_only), ("golden", result.golden_only))
            for name in names
        ],
        "counts": {
            "pairs": len(result.pairs),
            "compared": result.compared,
            "over": result.over,
            "warned": result.warned,
            "not_compared": len(result.pairs) - result.compared,
            "device_only": len(result.device_only),
            "golden_only": len(result.golden_only),
        },
        "elements": None if look is None else _look_json(look),
        "warnings": list(result.notes),
    }


def _pair_json(pair: PairDiff) -> Json:
    found = pair.found
    return {
        "name": pair.name,
        "device": str(pair.device),
        "golden": str(pair.golden),
        "shape": None if found.shape is None else list(found.shape),
        "device_dtype": found.device_dtype,
        "golden_dtype": found.golden_dtype,
        "metrics": metrics_json(found.metrics),
        "notes": notes_json(found.metrics),
        "figures": None if found.figures is None else figures_json(found.figures, found.shape),
        "level": pair.level,
        "failed": [metric.value for metric in pair.failed],
        "limit": pair.limit or None,
        "overflow": found.overflow,
        "reason": found.reason,
        "detail": found.detail or None,
    }


def figures_json(figures: Figures, shape: Sequence[int] | None) -> Json:
    """What a sweep tells beside the metrics; places as indices of the compared shape."""
    found = record_json(figures, null=("where_bad",))
    del found["cosine_distance"]  # the cosine stands among the metrics
    places = {"first_bad": figures.first_bad, "worst": figures.worst}
    return found | {name: _index(place, shape) for name, place in places.items()}


def index_of(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index in *shape* of a place counted in C order."""
    index: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.append(at)
    return tuple(reversed(index))


def _index(place: int, shape: Sequence[int] | None) -> Json:
    return None if place < 0 or shape is None else list(index_of(place, shape))


def _look_json(look: CloseLook) -> Json:
    table, inspection = look.table, look.inspection
    return {
        "atol": number(look.atol),
        "rtol": number(look.rtol),
        "summary": _summary_json(table),
        "first_bad": [element_json(element) for element in table.first_bad],
        "worst_absolute": [element_json(element) for element in table.worst_absolute],
        "worst_relative": [element_json(element) for element in table.worst_relative],
        **inspection_json(inspection),
    }


def inspection_json(inspection: Inspection) -> dict[str, Json]:
    """The sizes of the errors, and where the bad elements are."""
    histogram, ulps = inspection.histogram, inspection.ulps
    return {
        "histogram": {
            "equal": histogram.equal,
            "nonfinite": histogram.nonfinite,
            "decades": {str(power): n for power, n in sorted(histogram.decades.items())},
        },
        "ulps": None
        if ulps is None
        else {"unit": ulps.unit, "largest": number(ulps.largest), "mean": number(ulps.mean)},
        "where_bad": inspection.where_bad or None,
    }


def _summary_json(table: ElementTable) -> Json:
    return {
        "total": table.total,
        "bad": table.bad,
        "min_absolute_error": number(table.min_absolute),
        "max_absolute_error": number(table.max_absolute),
        "min_relative_error": number(table.min_relative),
        "max_relative_error": number(table.max_relative),
    }


def element_json(element: Element) -> Json:
    """One element: its place, both values, its errors."""
    values = {
        "device": element.device,
        "golden": element.golden,
        "absolute_error": element.absolute,
        "relative_error": element.relative,
    }
    odd = {name: odd_word(value) for name, value in values.items() if value is not None}
    return {
        "index": list(element.index),
        **{
            name: value if isinstance(value, int) else number(value)
            for name, value in values.items()
        },
        "notes": {name: said for name, said in odd.items() if said},
    }
