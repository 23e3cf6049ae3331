"""e3m2, 6 bits: 3 of exponent, 2 of mantissa, up to 28.

Source: OCP Microscaling Formats Specification.
"""

from divergraph.rootcause.arithmetic.grids import FloatGrid

ARITHMETIC = FloatGrid("e3m2", bits=2, least=-2, largest=28.0)
