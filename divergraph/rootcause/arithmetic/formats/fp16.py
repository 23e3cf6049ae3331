"""float16 operands of float32 products.

As TF32 for most numbers, but those below 6e-5 lose more bits, and large ones overflow.
"""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Grid


class HalfGrid(Grid):
    """The numbers of float16, infinity among them."""

    name = "fp16"
    bits = 10

    def rounded(self, value: Array) -> Array:
        """*value* rounded to nearest even."""
        half = value.astype(np.float16)
        return half.astype(np.float32)


ARITHMETIC = HalfGrid()
