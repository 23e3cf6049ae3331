"""How questions to a store and their rows are written for the way: JSON, tables as Arrow."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from graphstore.contract import QueryResult
from graphstore.cypher.targets import TargetKeys
from graphstore.errors import InputError

SERVER_HEADER = "Divergraph-Server"
"""By this header an answer is known as one of ours; its value is the version of
the exchange."""
_BYTES, _MAP = "$bytes", "$map"


def rows_text(answer: QueryResult) -> str:
    """The rows of an answer; bytes and maps are marked, NaN and infinity are as Python writes
    them."""
    rows = [[_sent(value) for value in row] for row in answer.rows]
    answer_fields = {"columns": answer.columns, "rows": rows, "truncated": answer.truncated}
    return json.dumps({**answer_fields, "notes": answer.notes}, separators=(",", ":"))


def rows_of(text: bytes) -> QueryResult:
    """The answer that :func:`rows_text` wrote."""
    read = json.loads(text)
    rows = tuple(tuple(_received(value) for value in row) for row in read["rows"])
    return QueryResult(tuple(read["columns"]), rows, read["truncated"], tuple(read["notes"]))


def _sent(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, list | tuple):
        return [_sent(element) for element in value]
    if isinstance(value, Mapping):
        return {_MAP: {str(key): _sent(element) for key, element in value.items()}}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _received(value: Any) -> Any:
    if isinstance(value, list):
        return [_received(element) for element in value]
    if isinstance(value, dict):
        if _BYTES in value:
            return base64.b64decode(value[_BYTES])
        return {key: _received(element) for key, element in value[_MAP].items()}
    return value


def table_bytes(table: Any) -> bytes:
    """An Arrow table as a stream of Arrow's own, compressed."""
    import pyarrow as pa

    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue()


def table_of_bytes(data: bytes) -> Any:
    """The table that :func:`table_bytes` wrote."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


def arrays_of_bytes(data: bytes) -> Mapping[str, Any]:
    """The arrays of an ``.npz`` file."""
    import numpy as np

    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def keys_json(place: TargetKeys) -> dict[str, object]:
    """Where a target is, as it is sent."""
    return asdict(place)


def keys_of(read: object) -> TargetKeys:
    """Where a target is.

    Raises:
        InputError: *read* does not say it.
    """
    try:
        place = TargetKeys(**read)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError("it does not say where a target is", where="place") from error
    values = asdict(place).values()
    if not all(value is None or isinstance(value, str) for value in values):
        raise InputError("it does not say where a target is", where="place")
    return place
