"""What a store of schema version 2 does not say of its nodes, from what it does say.

Relationships that it lacks join nodes by keys that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from graphstore.columns.op_attributes import attribute_texts, job_ranks
from graphstore.schema import codec
from graphstore.schema.graph_rows import dims, own_rank

_Made: TypeAlias = Callable[[str | None], object]


@lru_cache(4096)
def attributes(text: str | None) -> list[str] | None:
    """``Op.attributes`` of the text that ``Op.attrs_json`` was."""
    return None if text is None else list(attribute_texts(codec.attrs_value(text)))


@lru_cache(4096)
def _ranks(text: str | None) -> tuple[int, ...]:
    return job_ranks(codec.attrs_value(text or "{}"))


MADE: Mapping[str, tuple[str, _Made]] = {
    "attributes": ("attrs_json", attributes),
    "rank": ("attrs_json", lambda text: own_rank(_ranks(text))),
    "ranks": ("attrs_json", lambda text: list(_ranks(text))),
    "dims": ("shape", lambda text: dims(codec.shape_value(text))),
}
"""By column of version 3: the one of version 2 it is made of, and how. Ranks are those of jobs
only: other graphs have none, whatever attributes are called."""
