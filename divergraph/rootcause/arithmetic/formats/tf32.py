"""TF32: float32 with 10 bits of mantissa, rounded or cut off. Source: NVIDIA's tensor cores."""

from divergraph.rootcause.arithmetic.grids import ShortMantissa

ARITHMETIC = (ShortMantissa("tf32", bits=10), ShortMantissa("tf32, cut", bits=10, cut=True))
