"""Integers of 8 bits, from -127 to 127."""

from divergraph.rootcause.arithmetic.grids import IntegerGrid

ARITHMETIC = IntegerGrid("int8", bits=8)
