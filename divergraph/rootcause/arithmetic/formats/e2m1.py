"""e2m1, the elements of MXFP4 and NVFP4: 0, .5, 1, 1.5, 2, 3, 4 and 6.

Source: OCP Microscaling Formats Specification.
"""

from divergraph.rootcause.arithmetic.grids import FloatGrid

ARITHMETIC = FloatGrid("e2m1", bits=1, least=0, largest=6.0)
