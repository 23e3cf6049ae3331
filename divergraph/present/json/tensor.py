"""The JSON of ``divergraph tensor``; documented in docs/reference/json.md."""

from __future__ import annotations

import math

from divergraph.dump_diff.error_picture import ErrorMap, ErrorPicture
from divergraph.dump_diff.tensor_file import FileTensor, TensorFile
from divergraph.dump_diff.value_parts import ValueHistogram, ValueSlice
from divergraph.present.json.diff import element_json, figures_json, inspection_json
from divergraph.present.json.shapes import Json, metrics_json, notes_json, number, tensor_json
from graphstore.model import Comparison, TensorIO


def tensor_answer_json(
    run: str, compared: Comparison, layout: str | None, picture: ErrorPicture
) -> dict[str, Json]:
    """One tensor of both sides, and where and how they differ."""
    return {
        **_named(run, compared),
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


def slice_json(run: str, compared: Comparison, found: ValueSlice) -> dict[str, Json]:
    """What ``tensor --at`` prints."""
    sides = {"device": found.device, "golden": found.golden}
    flat = {side: values.reshape(-1).tolist() for side, values in sides.items()}
    return {
        **_named(run, compared),
        "at": found.at,
        "shape": list(found.golden.shape),
        **{side: [number(value) for value in values] for side, values in flat.items()},
        "nonfinite": {
            f"{side} {place}": str(value)
            for side, values in flat.items()
            for place, value in enumerate(values)
            if not math.isfinite(value)
        },
    }


def histogram_json(run: str, compared: Comparison, found: ValueHistogram) -> dict[str, Json]:
    """What ``tensor --bins`` prints."""
    return {
        **_named(run, compared),
        "edges": [number(edge) for edge in found.edges.tolist()],
        "device": found.device.tolist(),
        "golden": found.golden.tolist(),
        "device_nonfinite": found.device_nonfinite,
        "golden_nonfinite": found.golden_nonfinite,
    }


def tensor_file_json(found: TensorFile) -> dict[str, Json]:
    """What ``tensor FILE`` prints."""
    return {
        "path": str(found.path),
        "tensors": [_file_tensor_json(each) for each in found.tensors],
        "written": [str(path) for path in found.written],
        "unread": [{"tensor": name, "why": why} for name, why in found.unread],
    }


def _file_tensor_json(tensor: FileTensor) -> Json:
    known = tensor.statistics
    return {
        "tensor": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "layout": tensor.layout,
        "maximum": None if known.maximum is None else number(known.maximum),
        "minimum": None if known.minimum is None else number(known.minimum),
        "mean": None if known.mean is None else number(known.mean),
        "zeros": tensor.zeros,
        "nans": known.nans,
        "infinities": known.infinities,
        "first": [number(value) for value in tensor.first],
        "worst": [
            {"index": list(each.index), "value": number(each.value), "shown": str(each.value)}
            for each in tensor.worst
        ],
    }


def _named(run: str, compared: Comparison) -> dict[str, Json]:
    """Which tensor it is."""
    return {
        "run": run,
        "op": compared.op,
        "output": compared.port if compared.io is TensorIO.OUTPUT else None,
        "input": compared.port if compared.io is TensorIO.INPUT else None,
    }
