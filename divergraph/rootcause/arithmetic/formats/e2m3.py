"""e2m3, 6 bits: 2 of exponent, 3 of mantissa, up to 7.5.

Source: OCP Microscaling Formats Specification.
"""

from divergraph.rootcause.arithmetic.grids import FloatGrid

ARITHMETIC = FloatGrid("e2m3", bits=3, least=0, largest=7.5)
