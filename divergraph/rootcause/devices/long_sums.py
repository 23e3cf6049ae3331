"""How many terms an op adds up for one element of its output.

In float32 a sum of n terms may be off by the square root of n units of the last place, whichever of
two devices added them one after the other: a softmax over twenty thousand classes by a hundred.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.families import is_one_product
from graphstore.model import Op

_REDUCING = re.compile(r"(Global)?(Average|Lp)Pool.*|AvgPool.*|Reduce(?!Max|Min|Prod).*|Mean|Sum")
"""Op types whose output is a sum over elements of the input, of ONNX and TensorFlow."""
_NORMALISING = re.compile(r".*Softmax|(Skip|Fused)?(Layer|RMS|Lp)Norm(alization)?")
"""Op types whose output is divided by a sum over one axis of the input."""


def terms(op: Op, operands: Sequence[Array], output: Array) -> int:
    """The terms of the longest sum in *op*, from the sizes of its *operands* and of its *output*; 1
    for ops that add nothing up. Of a convolution it is an estimate from below."""
    sizes = sorted(
        (operand.size for operand in operands if operand.dtype.kind == "f"), reverse=True
    )
    if not sizes or not output.size:
        return 1
    if is_one_product(op) and len(sizes) > 1:
        # [m, k] times [k, n] is [m, n], so the product of the inputs' sizes is k² times the output.
        return max(1, math.isqrt(sizes[0] * sizes[1] // output.size))
    if _REDUCING.fullmatch(op.type):
        return max(1, sizes[0] // output.size)
    if _NORMALISING.fullmatch(op.type) and output.ndim:
        axis = op.attrs.get("axis", -1)
        if not isinstance(axis, int) or not -output.ndim <= axis < output.ndim:
            axis = -1
        return int(output.shape[axis])
    return 1
