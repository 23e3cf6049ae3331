"""The order of a list of ops in words."""

from __future__ import annotations

from divergraph.ask.op_order import Order

_SORT_WORDS = {
    "cos": ("worst cos first, NaN as worst", "best cos first"),
    "max": ("largest error first, NaN as worst", "smallest error first"),
    "rel": ("largest error first, NaN as worst", "smallest error first"),
    "gain": ("largest gain first", "smallest gain first"),
    "state": ("worst state first", "best state first"),
    "shape": ("largest first", "smallest first"),
    "role": ("those that make errors first", "clean ones first"),
    "susp": ("most suspicious first", "least suspicious first"),
    "intro": ("largest introduced error first", "smallest first"),
}


def order_words(order: Order) -> str:
    """The order as a phrase for the pane's title."""
    ascending, descending = _SORT_WORDS.get(
        order.column, (f"by {order.column}", f"by {order.column}, reversed")
    )
    return descending if order.descending else ascending
