"""What the ops of columns say of themselves beside their tensors, where somebody asked for it.

Attributes are most of a graph, and few lists ask for them: they are read once they are, and kept
as long as the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
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


def _text(value: AttrValue) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
