"""Dumps of a few calls on several ranks, as msprobe writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.values.array_types import Array

Call = tuple[str, Sequence[Any], Mapping[str, Any], Sequence[Any]]
"""A call's name, its arguments, its keywords, and what the dump has as its output."""


def write_ranks(
    step: Path, ranks: Mapping[int, Sequence[Call]], inside: Mapping[str, str] | None = None
) -> Path:
    """Write the calls of each rank below *step*, which is given back. A number is an argument of
    that value, a tuple a group of ranks, a dictionary a message of a batch. *inside* has calls that
    a module makes, with the name of its call."""
    for rank, calls in ranks.items():
        folder = step / f"rank{rank}"
        (folder / "dump_tensor_data").mkdir(parents=True)
        data = {}
        for name, arguments, keywords, output in calls:
            way_back = ".backward" in name
            data[name] = {
                "input" if way_back else "input_args": [
                    _leaf(folder, f"{name}.input.{at}", each) for at, each in enumerate(arguments)
                ],
                "input_kwargs": {
                    key: _leaf(folder, f"{name}.input.{key}", each)
                    for key, each in keywords.items()
                },
                "output": [
                    _leaf(folder, f"{name}.output.{at}", each) for at, each in enumerate(output)
                ],
            }
        head = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": data}
        (folder / "dump.json").write_text(json.dumps(head))
        (folder / "construct.json").write_text(
            json.dumps({**dict.fromkeys(data), **(inside or {})})
        )
    return step


def _leaf(folder: Path, name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _tensor(folder, name, value)
    if isinstance(value, list):
        return [_leaf(folder, f"{name}.{at}", each) for at, each in enumerate(value)]
    if isinstance(value, dict):
        tensor = _leaf(folder, f"{name}.tensor", value["tensor"])
        return {"class_type": "torch.distributed.P2POp", **value, "tensor": tensor}
    if isinstance(value, tuple):
        return {"type": "torch.ProcessGroup", "group_ranks": list(value)}
    return None if value is None else {"type": type(value).__name__, "value": value}


def _tensor(folder: Path, name: str, value: Array) -> dict[str, Any]:
    np.save(folder / "dump_tensor_data" / f"{name}.npy", value)
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{value.dtype}",
        "shape": list(value.shape),
        "Max": float(value.max()),
        "Min": float(value.min()),
        "Mean": float(value.mean()),
        "Norm": float(np.linalg.norm(value.astype(np.float64))),
        "data_name": f"{name}.npy",
    }
