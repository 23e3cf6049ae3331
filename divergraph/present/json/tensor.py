"""The JSON of ``divergraph tensor``; documented in docs/reference/json.md."""

from __future__ import annotations

from divergraph.dump_diff.error_picture import ErrorMap, ErrorPicture
from divergraph.present.json.diff import element_json, figures_json, inspection_json
from divergraph.present.json.shapes import Json, metrics_json, notes_json, number, tensor_json
from graphstore.model import Comparison, TensorIO


def tensor_answer_json(
    run: str, compared: Comparison, layout: str | None, picture: ErrorPicture
) -> dict[str, Json]:
    """One tensor of both sides, and where and how they differ."""
    return {
        "run": run,
        "op": compared.op,
        "output": compared.port if compared.io is TensorIO.OUTPUT else None,
        "input": compared.port if compared.io is TensorIO.INPUT else None,
        "golden": None if compared.golden is None else tensor_json(compared.golden),
        "shape": list(picture.shape),
        "layout": layout,
        "device_dtype": compared.device_dtype,
        "golden_dtype": compared.golden_dtype,
        "metrics": metrics_json(compared.metrics),
        "notes": notes_json(compared.metrics),
        "figures": None
        if compared.figures is None
        else figures_json(compared.figures, picture.shape),
        **inspection_json(picture.inspection),
        "is_apart": picture.is_apart,
        "worst": [element_json(each) for each in picture.table.worst_absolute],
        "by_axis": [_axis_json(each) for each in picture.by_axis],
    }


def _axis_json(made: ErrorMap) -> Json:
    return {
        "axis": made.axes[0],
        "step": made.steps[0],
        "means": [number(mean) for mean in made.means.tolist()],
    }
