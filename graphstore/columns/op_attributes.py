"""What the ops of columns say of themselves beside their tensors, where somebody asked for it.

Attributes are most of a graph, and few lists ask for them: they are read once they are, and kept
as long as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from graphstore.columns.coded import Coded
from graphstore.model import AttrValue

if TYPE_CHECKING:
    from graphstore.columns.op_columns import OpColumns

_KEPT: WeakKeyDictionary[OpColumns, Coded[tuple[str, ...]]] = WeakKeyDictionary()


def has_attributes(ops: OpColumns) -> bool:
    """Whether the attributes of *ops* were read."""
    return ops in _KEPT


def keep_attributes(ops: OpColumns, attributes: Coded[tuple[str, ...]]) -> None:
    """Remember the texts of all *ops*, of each as :func:`attribute_texts` gives them."""
    _KEPT[ops] = attributes


def attributes_of(ops: OpColumns) -> Coded[tuple[str, ...]]:
    """The texts that were kept.

    Raises:
        KeyError: nobody read them.
    """
    return _KEPT[ops]


def attribute_texts(attrs: Mapping[str, AttrValue]) -> tuple[str, ...]:
    """Each attribute as ``name=value``, as filters hold it against a pattern."""
    return tuple(f"{name}={_text(value)}" for name, value in sorted(attrs.items()))


RANK, RANKS = "rank", "ranks"
"""The attributes of ops of a job with their rank, or with the ranks a call is between."""


def job_ranks(attrs: Mapping[str, AttrValue]) -> tuple[int, ...]:
    """The ranks of a job that call the op with these *attrs*; none of other graphs' ops."""
    ranks = attrs.get(RANKS, attrs.get(RANK, ()))
    ranks = ranks if isinstance(ranks, tuple) else (ranks,)
    return tuple(rank for rank in ranks if isinstance(rank, int))


def rank_texts(texts: Sequence[str]) -> tuple[str, ...]:
    """What :func:`job_ranks` says of the attributes behind *texts*, each rank as text."""
    for name in (RANKS, RANK):
        for text in texts:
            if text.startswith(f"{name}="):
                return tuple(text.removeprefix(f"{name}=").strip("[]").split(","))
    return ()


def _text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
