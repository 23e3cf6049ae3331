"""Which call of PyTorch each operator of ATen is, and what its arguments are called there.

Source: ``aten/src/ATen/native/native_functions.yaml``. Operators are called as functions and
methods of PyTorch are, with arguments of the same names, ``self`` for ``input``; the table has
those that are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The *type* of call an operator is, and the places of arguments that are called otherwise."""

    type: str
    places: Mapping[str, str] = field(default_factory=dict)


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


_TYPES = _pairs(
    "_to_copy=to _log_softmax=log_softmax _softmax=softmax _unsafe_view=view numpy_T=T "
    "constant_pad_nd=pad bitwise_and=__and__ bitwise_or=__or__ bitwise_xor=__xor__ "
    "bitwise_not=__invert__ lift_fresh_copy=clone lift_fresh=clone unsafe_split=split "
    "unsafe_chunk=chunk copy=copy_ fill=fill_ hardswish_=hardswish index=__getitem__ "
    "_unsafe_index=__getitem__ masked_fill_=masked_fill max_pool2d_with_indices=max_pool2d "
    "max_pool3d_with_indices=max_pool3d _adaptive_avg_pool2d=adaptive_avg_pool2d "
    "_adaptive_avg_pool3d=adaptive_avg_pool3d log_sigmoid=logsigmoid new_zeros=zeros "
    "new_ones=ones new_full=full matrix_norm=norm _weight_norm=weight_norm"
)
_PLACES = {
    "batch_norm": "running_mean=1 running_var=2 weight=3 bias=4",
    "dot": "tensor=other",
    "dropout": "train=training",
    "dropout_": "train=training",
    "einsum": "equation=0 tensors=1",
    "embedding": "indices=input",
    "index": "indices=1",
    "_unsafe_index": "indices=1",
    "mv": "vec=other",
    "addmv": "mat=mat1 vec=mat2",
    "baddbmm": "batch1=mat1 batch2=mat2",
    "lstm": "input=0 hx=1 params=2 has_biases=3 num_layers=4 dropout=5 train=6 bidirectional=7 "
    "batch_first=8",
    "gru": "input=0 hx=1 params=2 has_biases=3 num_layers=4 dropout=5 train=6 bidirectional=7 "
    "batch_first=8",
}


def aten_call(name: str) -> AtenCall:
    """The call that the operator *name* (``linear``) is."""
    places = {"self": "input", **_pairs(_PLACES.get(name, ""))}
    return AtenCall(_TYPES.get(name, name), places)
