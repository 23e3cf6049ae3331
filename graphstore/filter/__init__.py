"""The filter language: ``cos<0.99 type:MatMul* !state:clean``, one parser for every front end.

Blank means and, ``|`` inside a value or, ``!`` not, ``~`` regular expression, ``*`` any
text; a bare word is part of the op's name or of an original's. Case does not matter. ``FIELDS``
lists what can be asked.
"""

from graphstore.filter.fields import FIELDS, FieldKind, FilterField, Operator, near_misses
from graphstore.filter.parser import parse_filter, quoted
from graphstore.filter.terms import OpFilter, Pattern, Term

__all__ = [
    "FIELDS",
    "FieldKind",
    "FilterField",
    "OpFilter",
    "Operator",
    "Pattern",
    "Term",
    "near_misses",
    "parse_filter",
    "quoted",
]
