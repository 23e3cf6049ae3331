"""Attention, whose kernel rounds the softmax between its two products to 16 bits.

Where what is added up cancels, that is more than rounding the output. A kernel may do so or not, so
the call is run again with this rounding, and what that changes is no error.
"""

from __future__ import annotations

from divergraph.execute.contract import Alterable, RunnableSubgraph
from divergraph.execute.translate.torch.matrices import INSIDE
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)
from divergraph.rootcause.values import relative, same_shape

_TYPE = "scaled_dot_product_attention"
_NARROW = ("fp16", "bf16")


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    precision, executor = context.arithmetic.precision.name, context.executor
    golden = context.group.golden
    is_attention = context.golden.ops[golden.op].type.startswith(_TYPE)
    if precision not in _NARROW or not is_attention or not isinstance(executor, Alterable):
        return None
    name = context.golden.name(golden)
    subgraph = RunnableSubgraph(name, tuple(context.given), (name,))
    outputs = executor.run_altered(subgraph, context.given, name, {INSIDE: precision})
    output = None if outputs is None else same_shape(outputs[name], estimate.reference.shape)
    if output is None:
        return None
    error = relative(output, estimate.reference)
    return Widen(floor=max(error, estimate.floor), imitations=(output,), numbers={"inside": error})


TOLERANCE = Tolerance(
    "rounded inside",
    Stage.KNOWN,
    6,
    "a kernel of attention may round the softmax between its two products",
    _apply,
)
