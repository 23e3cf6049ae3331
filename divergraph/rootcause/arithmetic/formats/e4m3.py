"""e4m3: 4 bits of exponent, 3 of mantissa, up to 448.

Source: OCP 8-bit Floating Point Specification (OFP8).
"""

from divergraph.rootcause.arithmetic.grids import FloatGrid

ARITHMETIC = FloatGrid("e4m3", bits=3, least=-6, largest=448.0)
