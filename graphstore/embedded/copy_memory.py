"""How much memory the embedded engine may take to copy an Arrow table.

It ends a copy that needs more, and fills what it may take with pages that are written anyway:
so neither too little nor much too much. The figures were measured for ladybug 0.19, one
thread for nodes and two for relationships, as the least with which tables of different shapes
could be copied, and made larger.
"""

from __future__ import annotations

from typing import Any

LEAST_POOL = 2**27
_CHUNK = 2**17
"""Rows of a node table that the engine has in memory at once."""
_NUMBER, _TEXT_PLACE = 8, 12
"""Bytes the engine has for a number, and for a text beside what it is made of."""
_A_FIXED_BYTE, _A_TEXT_BYTE, _A_LIST_BYTE, _A_BLOB_BYTE = 3.5, 7.0, 2.5, 8.0
"""What it takes for each byte of such columns of a chunk, copies while they grow included."""
_FOR_RELS, _A_REL, _A_REL_BYTE, _A_REL_BYTE_AGAIN = 2**25, 50, 8, 6
"""What it takes for relationships, for each of them, and for each byte of their texts: of texts
that are all different, and of those that come again and again."""


def node_pool(rows: Any) -> int:
    """Bytes for the nodes of an Arrow table, by its largest chunk."""
    chunks = (rows.slice(first, _CHUNK) for first in range(0, len(rows), _CHUNK))
    return max(LEAST_POOL, *(round(sum(map(_column_pool, chunk.columns))) for chunk in chunks))


def rel_pool(rows: Any) -> int:
    """Bytes for the relationships of an Arrow table: the engine has all of them in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = 0
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            longest = [pc.max(pc.binary_length(part.dictionary)).as_py() for part in column.chunks]
            texts += _A_REL_BYTE_AGAIN * len(column) * max(filter(None, longest), default=0)
        elif pa.types.is_string(column.type):
            texts += _A_REL_BYTE * (pc.sum(pc.binary_length(column)).as_py() or 0)
    return max(LEAST_POOL, _FOR_RELS + _A_REL * len(rows) + texts)


def _column_pool(column: Any) -> float:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        return _A_TEXT_BYTE * float(column.nbytes)
    if pa.types.is_binary(kind):
        return _A_BLOB_BYTE * float(column.nbytes)
    if pa.types.is_list(kind):
        return _A_LIST_BYTE * float(column.nbytes)
    if pa.types.is_dictionary(kind):
        texts = sum([int(part.dictionary.nbytes) for part in column.chunks])
        return _A_FIXED_BYTE * _TEXT_PLACE * len(column) + _A_TEXT_BYTE * texts
    return _A_FIXED_BYTE * _NUMBER * len(column)
