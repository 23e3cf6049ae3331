"""e2m1, the elements of MXFP4 and NVFP4: 0, .5, 1, 1.5, 2, 3, 4 and 6.

Source: OCP Microscaling Formats Specification. Between two of them lies a value of bfloat16 in
every 30th case: hardware rounds it to the even one, a search for the nearest finds the lower first.
"""

from dataclasses import replace

from divergraph.rootcause.arithmetic.grids import FloatGrid

_E2M1 = FloatGrid("e2m1", bits=1, least=0, largest=6.0)

ARITHMETIC = (
    _E2M1,
    replace(_E2M1, name="e2m1 (ties to zero)", ties_to_zero=True, variant_of=_E2M1.name),
)
