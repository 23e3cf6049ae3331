"""Small cases of rows with what TensorFlow made of them, in one file: for where it is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.made.tensorflow_ops.drawing import Array

FILE = Path(__file__).parents[2] / "data" / "tensorflow" / "rows.npz"


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Ops that do not depend on each other, as a model file of TensorFlow; what they are fed, and
    what TensorFlow gave, by tensor."""

    model: bytes
    feeds: Mapping[str, Array]
    values: Mapping[str, Array]


def store(rows: StoredRows, path: Path = FILE) -> None:
    """Write *rows*: all arrays end to end, since each file in an archive takes its room."""
    index = {}
    whole = b""
    for group, arrays in (("feeds", rows.feeds), ("values", rows.values)):
        for name, value in arrays.items():
            index[f"{group} {name}"] = [value.dtype.str, value.shape, len(whole)]
            whole += np.ascontiguousarray(value).tobytes()
    parts = {"index": json.dumps(index).encode(), "model": rows.model, "arrays": whole}
    np.savez_compressed(path, **{name: np.frombuffer(part, "u1") for name, part in parts.items()})


def stored(path: Path = FILE) -> StoredRows:
    """What :func:`store` wrote."""
    with np.load(path) as parts:
        index, model, whole = (parts[name].tobytes() for name in ("index", "model", "arrays"))
    found: dict[str, dict[str, Array]] = {"feeds": {}, "values": {}}
    for key, (kind, shape, start) in json.loads(index).items():
        group, _, name = key.partition(" ")
        count = int(np.prod(shape, dtype=np.int64))
        found[group][name] = np.frombuffer(whole, kind, count, start).reshape(shape)
    return StoredRows(model, found["feeds"], found["values"])
