"""The kinds of matrix ops, and what their two operands are.

Fast arithmetic is not what a graph says: matrix engines round float32 operands to 11 bits of
mantissa, or divide a row by its largest value and keep 8 bits of it, and add up in float32. It is
the same in most matrix ops of a family, so their errors show it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import FULL, OperandFormat, Role
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.text.words import counted
from graphstore.model import InputRef, Op

_BIAS = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "LSTM": 3, "GRU": 3, "RNN": 3}
"""By op type the position of the bias, which is added in full float32."""
_CONVOLUTION = re.compile(r"(Depthwise|Fused)?Conv(\d.*)?")
_TRANSPOSED = re.compile(r"Conv(\dD?)?Transpose.*|.*Conv\d.*BackpropInput.*|Deconvolution")
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_PRODUCTS = frozenset(
    {
        *("MatMul", "MatMulV2", "Gemm", "FusedMatMul", "FusedGemm"),
        *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"),
    }
)
_TURNED = (
    ("transA", "transpose_a", "adj_x", "transpose_x1", "adj_x1"),
    ("transB", "transpose_b", "adj_y", "transpose_x2", "adj_x2"),
)
"""The attributes by which ONNX, TensorFlow and Ascend transpose the first and second factor."""


class Family(StrEnum):
    """Kinds of matrix ops; a device mostly reads the operands of all ops of one alike."""

    CONVOLUTION = "convolutions"
    GROUPED = "grouped convolutions"
    TRANSPOSED = "transposed convolutions"
    LINEAR = "linear layers"
    PRODUCT = "matrix products"
    """Of two activations, as in attention; of any two where the graph is not looked at."""
    EINSUM = "einsums"
    RECURRENT = "recurrent layers"


_ONE_PRODUCT = frozenset(
    (Family.LINEAR, Family.PRODUCT, Family.CONVOLUTION, Family.GROUPED, Family.TRANSPOSED)
)


def family_of(op: Op, graph: OpGraph | None = None) -> Family | None:
    """The family of *op*; None if it multiplies no matrices. Linear layers are told from products
    of activations by the *graph*."""
    if op.type in _PRODUCTS:
        weights = graph is not None and any(is_weight(ref, graph) for ref in op.inputs[:2])
        return Family.LINEAR if weights else Family.PRODUCT
    if op.type in _RECURRENT:
        return Family.RECURRENT
    if op.type == "Einsum":  # by kernels of its own on some devices
        return Family.EINSUM
    if _TRANSPOSED.fullmatch(op.type):
        return Family.TRANSPOSED
    if not _CONVOLUTION.fullmatch(op.type):
        return None
    # Depthwise ones are no matrix product, so they have kernels of their own.
    groups = op.attrs.get("group", 1)
    grouped = op.type.startswith("Depthwise") or (isinstance(groups, int) and groups > 1)
    return Family.GROUPED if grouped else Family.CONVOLUTION


def is_one_product(op: Op) -> bool:
    """Whether *op* multiplies once by a weight; recurrent layers also do with their own state."""
    return family_of(op) in _ONE_PRODUCT


def is_weight(ref: InputRef | None, graph: OpGraph) -> bool:
    """Whether *ref* is the same in every run."""
    if ref is None:
        return False
    if ref.producer is None:
        return not graph.is_entry(ref)
    return graph.is_constant(ref.producer.op)


def bias_of(op: Op) -> str | None:
    """The name of the tensor that a matrix op adds; None without one."""
    place = _BIAS.get(op.type, -1)
    bias = op.inputs[place] if 0 <= place < len(op.inputs) else None
    return None if bias is None else bias.tensor


@dataclass(frozen=True, slots=True)
class Factor:
    """One operand of a product: the ``tensor``, the ``axis`` it is summed over, and its role."""

    tensor: str
    axis: int
    role: Role


def factors_of(op: Op, graph: OpGraph) -> Iterator[Factor]:
    """What *op* multiplies: the two factors of a product or convolution, all inputs but the bias of
    other matrix ops, whose last axis is taken for that of the sum."""
    bias, one = bias_of(op), is_one_product(op)
    for place, ref in enumerate(op.inputs[:2] if one else op.inputs):
        if ref is not None and ref.tensor != bias:
            role = Role.WEIGHT if is_weight(ref, graph) else Role.ACTIVATION
            yield Factor(ref.tensor, _axis(op, place) if one else -1, role)


def _axis(op: Op, place: int) -> int:
    """The axis over which the first or second factor (*place*) of a product is summed."""
    if op.type in _PRODUCTS:
        turned = any(op.attrs.get(name) in (1, True) for name in _TURNED[place])
        return -1 if turned == bool(place) else -2
    if op.type.startswith("Conv") and "data_format" not in op.attrs:  # channels are in front
        return 0 if place and family_of(op) is Family.TRANSPOSED else 1
    return -2 if place else -1


@dataclass(frozen=True, slots=True)
class Loss:
    """What products lose by an arithmetic that is not known: the ``usual`` relative error, and the
    ``noise`` by which that is emulated, less by as much as one op that loses more stands out."""

    usual: float
    noise: float


class Exactness(IntEnum):
    """How well the products of a device in one format are those that are computed here."""

    NO = 0
    BUT_FOR_ROUNDING = 1
    """The device is held against them, and the loss of the format hides no fault."""
    TO_THE_BIT = 2
    """Nearly all values are the very ones: products read their operands as they were dumped."""


def summed(kind: OperandFormat) -> str:
    """The words for the sums of a format."""
    return "float32" if kind.sums is None else kind.sums.words


@dataclass(frozen=True)
class ReadOperands:
    """The operand formats of a device: by family, and by golden op id for those ``ops`` that are
    not as their family. What is in neither reads its operands as they are. ``losses`` are those of
    families that no known format explains."""

    families: Mapping[Family, OperandFormat] = field(default_factory=dict)
    ops: Mapping[str, OperandFormat] = field(default_factory=dict)
    losses: Mapping[Family, Loss] = field(default_factory=dict)
    exact: Mapping[OperandFormat, Exactness] = field(default_factory=dict)
    """How well the device's products in a format are those that are computed here."""

    def __bool__(self) -> bool:
        return bool(self.families or self.ops or self.losses)

    @property
    def unexplained(self) -> str:
        """A doubt about the run whose products lose what nothing known loses; "" without any."""
        texts = (
            f"its {family} lose {loss.usual:.2g} of what they compute (relative error, median), as "
            "no arithmetic known here does"
            for family, loss in self.losses.items()
        )
        return "; ".join(texts)

    def noise(self, op: Op, graph: OpGraph) -> float:
        """The relative error by which an unknown loss of *op* is emulated; 0 without one."""
        family = family_of(op, graph) if self.losses else None
        return 0.0 if family is None or family not in self.losses else self.losses[family].noise

    def sentence(self, others: str) -> str:
        """What users read: each family with its format, and that everything else is *others*."""
        single = Counter(self.ops.values())
        texts = [
            f"{family}: operands {kind.sentence}, sums {summed(kind)}"
            for family, kind in self.families.items()
        ]
        if not texts and not single:
            return ""
        for kind, count in single.items():
            sums = "" if kind.sums is None else f", sums {summed(kind)}"
            ops = f"{counted(count, 'op')} of these" if self.families else counted(count, "product")
            texts.append(f"{ops} with operands {kind.sentence}{sums}")
        text = "; ".join([*texts, f"everything else {others}"])
        return text[0].upper() + text[1:]

    def exactness(self, ops: Iterable[Op], graph: OpGraph) -> Exactness:
        """How well products of formats among *ops* are known, that of the least known one."""
        kinds = {self.of(op, graph) for op in ops if family_of(op) is not None} - {FULL}
        return min((self.exact.get(kind, Exactness.NO) for kind in kinds), default=Exactness.NO)

    def of(self, op: Op, graph: OpGraph) -> OperandFormat:
        """How *op* of the golden *graph* reads what it multiplies."""
        family = family_of(op, graph)
        if family is None:
            return FULL
        return self.ops.get(op.id) or self.families.get(family, FULL)

    def read(
        self,
        op: Op,
        given: Mapping[str, Array],
        graph: OpGraph,
        held: Callable[[Array], Array],
    ) -> dict[str, Array]:
        """The inputs *given* to an op, by tensor name, as its multiplier reads them; *held* rounds
        a value to the type it is held in before it is scaled.

        What is multiplied inside the bodies of an ``If`` or ``Loop`` is not visible here, so all
        that such an op reads is rounded, if no scales are needed for that.
        """
        operands = dict(given)
        if op.owns and self.families:
            kind = next(iter(self.families.values()))
            if kind.scaled:
                return operands
            return {name: kind.operand(x, -1, Role.ACTIVATION) for name, x in given.items()}
        kind = self.of(op, graph)
        if kind == FULL:
            return operands
        channels_first = op.type == "Conv"
        for factor in factors_of(op, graph):
            if factor.tensor not in given or given[factor.tensor].dtype.kind != "f":
                continue
            value = held(given[factor.tensor])
            if channels_first and factor.role is Role.WEIGHT:  # a sum goes over the kernel as well
                rows = value.reshape(value.shape[0], -1)
                value = kind.operand(rows, -1, factor.role).reshape(value.shape)
            else:
                value = kind.operand(value, factor.axis, factor.role)
            # What is scaled back to be multiplied by values of the type is one of these again.
            operands[factor.tensor] = held(value) if kind.leaves_activations else value
        return operands
