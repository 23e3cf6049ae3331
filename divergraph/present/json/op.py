"""The JSON of a single op; documented in docs/reference/json.md."""

from __future__ import annotations

from divergraph.ask.answers import OpDetail, TensorRow
from divergraph.ask.single_ops.neighbourhood import OpsAround
from divergraph.present.json.memory import noted_row_json
from divergraph.present.json.propagation import judged_origin_json
from divergraph.present.json.shapes import (
    Json,
    comparison_json,
    finding_json,
    link_json,
    not_compared_json,
    plain_json,
    tensor_json,
)


def op_json(run: str, found: OpDetail) -> dict[str, Json]:
    """Everything about an op."""
    types = {found.row.id: found.row.type}
    return {
        "run": run,
        **noted_row_json(found.row),
        "explanation": found.explanation,
        "attributes": {name: plain_json(value) for name, value in found.attrs.items()},
        "inputs": [_tensor(row, types) for row in found.inputs],
        "outputs": [_tensor(row, types) for row in found.outputs],
        "controls": list(found.controls),
        "links": [link_json(link) for link in found.links],
        "origin": None if found.answer is None else judged_origin_json(found.answer),
        "findings": [finding_json(each) for each in found.findings],
    }


def _tensor(row: TensorRow, types: dict[str, str]) -> Json:
    item = row.comparison
    return {
        "port": row.port,
        "tensor": row.tensor,
        "producer": None if row.producer is None else tensor_json(row.producer),
        "consumers": list(row.consumers),
        "dtype": None if row.dtype is None else row.dtype.value,
        "shape": None if row.shape is None else list(row.shape),
        "layout": row.layout or None,
        "compared": comparison_json(item, types) if item is not None and item.compared else None,
        "not_compared": None if item is None or item.reason is None else not_compared_json(item),
    }


def neighbourhood_json(run: str, found: OpsAround) -> dict[str, Json]:
    """The ops around an op."""
    return {
        "run": run,
        "op": found.op,
        "depth": found.depth,
        "ops": [
            {
                "op": each.row.id,
                "type": each.row.type,
                "state": None if each.row.state is None else each.row.state.value,
                "distance": each.distance,
                "reads": list(each.reads),
                "read_by": list(each.read_by),
            }
            for each in found.ops
        ],
        "left_out": found.left_out,
    }
