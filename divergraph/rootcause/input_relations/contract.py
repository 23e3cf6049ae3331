"""What a relation of inputs is: a guess at what the device was fed, made from golden's input.

Each module of this folder gives its guessers as ``RELATIONS``, an :class:`InputRelations`;
installed packages add more through entry points of the group ``divergraph.input_relations``. The
numbers in this folder choose words, never whether inputs differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from divergraph.execute.contract import Array
from divergraph.files.discovered import discovered

ENTRY_POINT_GROUP = "divergraph.input_relations"


@dataclass(frozen=True, slots=True)
class Guess:
    """What the device may have been fed: ``values``, float64 of golden's shape, plus multiples of
    the ``directions``, arrays of that shape; NaN where nothing is known.

    ``words`` continue "the device was fed golden's x"; where there are directions, they take the
    multiples. ``parameters`` counts what is chosen to fit the device: shifts, orders, multiples.
    ``is_gain``: an op without a bias whose result is off by a factor gives the same.
    """

    words: str | Callable[[Array], str]
    values: Array
    parameters: int = 0
    directions: tuple[Array, ...] = ()
    is_gain: bool = False


Guesser: TypeAlias = Callable[[Array, "Array | None"], Iterator[Guess]]
"""Guesses from golden's values and, where these are known, from the device's; both float64."""


@dataclass(frozen=True, slots=True)
class InputRelations:
    """Guessers: ``arranged`` have golden's numbers in other places, ``valued`` other numbers in the
    same places. The latter are asked of each arrangement, too: an image may be in BGR and not
    normalised."""

    arranged: tuple[Guesser, ...] = ()
    valued: tuple[Guesser, ...] = ()


@cache
def input_relations() -> InputRelations:
    """The guessers of all that is installed."""
    relations = [
        relation_set
        for relation_set in discovered(str(__package__), "RELATIONS", ENTRY_POINT_GROUP)
        if isinstance(relation_set, InputRelations)
    ]
    return InputRelations(
        tuple(one for relation_set in relations for one in relation_set.arranged),
        tuple(one for relation_set in relations for one in relation_set.valued),
    )
