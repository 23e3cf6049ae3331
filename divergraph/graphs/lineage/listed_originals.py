"""The originals that a device's graph lists for its ops by name, found in the golden graph.

OpenVINO makes the names of a converted op from the original's, and puts something behind them where
an op is a part of the original or the original in another number type.
"""

from __future__ import annotations

import re

from divergraph.graphs.lineage.golden_tensors import Counterpart, GoldenTensors, Unmatched
from graphstore.model import LineageRule, Op, Reason, TensorMatch, TensorRef

_PART = re.compile(r"/WithoutBiases$")
_IN_FRONT = re.compile(r"/transpose_[ab]$")
_PORT = re.compile(r"\.(\d{1,5})$")
"""An output of an op whose whole numbers were made narrower, by its number; also twice."""


def listed_originals(golden: GoldenTensors, op: Op) -> tuple[str, ...]:
    """The ids of the golden ops that *op* lists, by their own names or those of their tensors."""
    found = (_tensor(golden, _PART.sub("", name), 0) for name in op.original_names or ())
    return tuple(dict.fromkeys(ref.op for ref in found if ref is not None))


def counterpart_by_origin(golden: GoldenTensors, op: Op, ref: TensorRef) -> Counterpart | None:
    """The golden tensor that the origin of output *ref* names, or that it is only a part of one.
    None if the golden graph knows no such name."""
    origin = op.outputs[ref.port].origin
    if origin is None:
        return None
    found = _tensor(golden, origin.op, origin.port)
    if found is not None:
        return TensorMatch(ref, found, LineageRule.ORIGIN_OUTPUT)
    whole = _PART.sub("", origin.op)
    if whole != origin.op and _tensor(golden, whole, 0) is not None:
        return Unmatched(Reason.INNER_OF_SPLIT, f"a part of {whole}: without its bias")
    behind = _IN_FRONT.sub("", origin.op)
    if behind != origin.op and _tensor(golden, behind, 0) is not None:
        return Unmatched(Reason.INSERTED, f"{op.type} added in front of {behind}, no original")
    return None


def _tensor(golden: GoldenTensors, name: str, port: int) -> TensorRef | None:
    """Output *port* of the golden op called *name*, or the golden tensor called so."""
    for _ in range(3):
        op = golden.by_name.get(name)
        if op is not None and port < max(1, len(op.outputs)):
            return TensorRef(op.id, port)
        if port == 0 and (tensor := golden.by_tensor_name.get(name)) is not None:
            return tensor
        numbered = _PORT.search(name)
        if numbered is None or port:
            return None
        name, port = name[: numbered.start()], int(numbered[1])
    return None
