"""A selection and what became of it, as JSON."""

from __future__ import annotations

from pathlib import Path

from divergraph.present.json.shapes import Json, record_json
from divergraph.submodel.check import PartCheck
from divergraph.submodel.selection import BoundaryTensor, Selection


def part_json(
    part: Selection, path: Path | None = None, check: PartCheck | None = None
) -> dict[str, Json]:
    """``{ops, inputs, outputs, refused, path, ...}``; the path is null if nothing was written."""
    return {
        "starts": list(part.starts),
        "ends": list(part.ends),
        "ops": list(part.chosen),
        "constants": list(part.constants),
        "weights": list(part.weights),
        "inputs": [_tensor(tensor) for tensor in part.inputs],
        "outputs": [_tensor(tensor) for tensor in part.outputs],
        "added": list(part.added),
        "notes": list(part.notes),
        "refused": [record_json(one) for one in part.refused],
        "path": None if path is None else str(path),
        "check": None if check is None else {"passed": check.passed, "lines": list(check.lines)},
    }


def _tensor(tensor: BoundaryTensor) -> Json:
    return {
        "name": tensor.name,
        "op": None if tensor.ref is None else tensor.ref.op,
        "output": None if tensor.ref is None else tensor.ref.port,
        "dtype": None if tensor.dtype is None else tensor.dtype.value,
        "shape": None if tensor.shape is None else list(tensor.shape),
        "layout": tensor.layout,
        "bytes": tensor.nbytes,
        "users": list(tensor.users),
        "side": tensor.side,
        "frozen": tensor.frozen,
        "dumped": tensor.dumped,
    }
