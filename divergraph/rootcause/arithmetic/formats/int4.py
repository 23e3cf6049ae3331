"""Integers of 4 bits, from -7 to 7."""

from divergraph.rootcause.arithmetic.grids import IntegerGrid

ARITHMETIC = IntegerGrid("int4", bits=4)
