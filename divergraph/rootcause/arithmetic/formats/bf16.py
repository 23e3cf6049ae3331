"""bfloat16 operands of float32 products: 7 bits of mantissa."""

from divergraph.rootcause.arithmetic.grids import ShortMantissa

ARITHMETIC = ShortMantissa("bf16", bits=7)
