"""e5m2: 5 bits of exponent, 2 of mantissa, up to 57344.

Source: OCP 8-bit Floating Point Specification (OFP8).
"""

from divergraph.rootcause.arithmetic.grids import FloatGrid

ARITHMETIC = FloatGrid("e5m2", bits=2, least=-14, largest=57344.0)
