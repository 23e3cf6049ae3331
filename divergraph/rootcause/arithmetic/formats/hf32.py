"""HF32: float32 with 11 bits of mantissa, rounded or cut off. Source: Ascend's matrix unit."""

from divergraph.rootcause.arithmetic.grids import ShortMantissa

ARITHMETIC = (ShortMantissa("hf32", bits=11), ShortMantissa("hf32, cut", bits=11, cut=True))
