"""The precision in which matrix ops read their operands.

Fast single precision is not single precision: matrix engines round float32 operands to 11 or 10
bits of mantissa (HF32, TF32) or 7 (bfloat16) and accumulate in float32. The graph does not say
which, but it is the same in all matrix ops of a family, so their errors show it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.mantissa import short
from graphstore.model import Op

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


class Family(StrEnum):
    """Kinds of matrix ops; a device has one setting of operand precision for each."""

    CONVOLUTION = "convolutions"
    GROUPED = "grouped convolutions"
    TRANSPOSED = "transposed convolutions"
    PRODUCT = "matrix products"
    EINSUM = "einsums"
    RECURRENT = "recurrent layers"


_ONE_PRODUCT = frozenset((Family.PRODUCT, Family.CONVOLUTION, Family.GROUPED, Family.TRANSPOSED))


class Operands(StrEnum):
    """An operand precision: ``bits`` of mantissa are kept, the others ``cut`` off or rounded."""

    bits: int
    cut: bool

    def __new__(cls, word: str, bits: int = 23, cut: bool = False) -> Operands:
        """A member by its word, as users write and read it."""
        found = str.__new__(cls, word)
        found._value_, found.bits, found.cut = word, bits, cut
        return found

    FULL = "fp32"
    HF32 = "hf32", 11
    HF32_CUT = "hf32, cut", 11, True
    TF32 = "tf32", 10
    TF32_CUT = "tf32, cut", 10, True
    BF16 = "bf16", 7
    FP16 = "fp16", 10
    """As TF32 for most numbers, but those below 6e-5 lose more bits, and large ones overflow."""

    def __call__(self, value: Array) -> Array:
        """*value* as the multiplier reads it, in its dtype; only float32 is changed."""
        if self is Operands.FULL or value.dtype != np.float32:
            return value
        if self is Operands.FP16:
            with np.errstate(over="ignore"):
                return value.astype(np.float16).astype(np.float32)
        lost = Operands.FULL.bits - self.bits
        if self.cut:
            raw = np.ascontiguousarray(value).view(np.uint32) >> np.uint32(lost) << np.uint32(lost)
            return raw.view(np.float32).reshape(value.shape)
        return short(value, lost)


CANDIDATES: tuple[Operands, ...] = tuple(each for each in Operands if each is not Operands.FULL)

ShortOperands = Mapping[Family, Operands]
"""By family the operand precision; families not in it read full float32."""


def family_of(op: Op) -> Family | None:
    """The family of *op*; None if it multiplies no matrices."""
    if op.type in _PRODUCTS:
        return Family.PRODUCT
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


def bias_of(op: Op) -> str | None:
    """The name of the tensor that a matrix op adds; None without one."""
    place = _BIAS.get(op.type, -1)
    bias = op.inputs[place] if 0 <= place < len(op.inputs) else None
    return None if bias is None else bias.tensor


def with_short_operands(
    op: Op, given: Mapping[str, Array], chosen: ShortOperands
) -> dict[str, Array]:
    """The inputs *given* to an op, by tensor name, as its multiplier reads them.

    What is multiplied inside the bodies of an ``If`` or ``Loop`` is not visible here, so everything
    such an op reads is rounded.
    """
    family = family_of(op)
    if family is None and not (op.owns and chosen):
        return dict(given)
    operands = next(iter(chosen.values())) if family is None else chosen.get(family, Operands.FULL)
    whole = bias_of(op)
    return {name: value if name == whole else operands(value) for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class OperandEvidence:
    """For one matrix op the introduced error over the floor, under each hypothesis."""

    family: Family
    ratios: Mapping[Operands, float]


def decided(evidence: Sequence[OperandEvidence], suspect: float) -> dict[Family, Operands]:
    """The operand precision of each family whose ops agree that it is not full float32.

    A family whose median stays below *suspect* in full float32 needs no other explanation; a fault
    in a few of its ops does not move the median. A family of few ops is judged by itself, and if
    that leaves it open, together with the others.
    """
    found: dict[Family, Operands] = {}
    by_family = {family: [each for each in evidence if each.family is family] for family in Family}
    # The largest families first: what was found for them is the likeliest for small families.
    for family, own in sorted(by_family.items(), key=lambda item: -len(item[1])):
        chosen = _likeliest(own, suspect, tuple(found.values())) if own else None
        few = len(own) < calibration.ENOUGH_OPS <= len(evidence)
        if chosen is None and few and _is_over(own, suspect):
            chosen = _likeliest(evidence, suspect)
        if chosen is not None:
            found[family] = chosen
    return found


def _is_over(evidence: Sequence[OperandEvidence], suspect: float) -> bool:
    ratios = [each.ratios[Operands.FULL] for each in evidence]
    return bool(ratios) and statistics.median_low(ratios) > suspect


def _likeliest(
    evidence: Sequence[OperandEvidence], suspect: float, known: Sequence[Operands] = ()
) -> Operands | None:
    """The hypothesis whose median of error over floor is nearest to 1, if one is near enough.

    For a family of few ops only what is *known* of other families is tried, if anything is. An op
    of few that no hypothesis explains has a fault, and is left out.
    """
    if len(evidence) < calibration.ENOUGH_OPS:
        told = [each for each in evidence if min(each.ratios.values()) <= suspect]
        evidence = told or evidence
    if not _is_over(evidence, suspect):
        return None
    fitting: list[tuple[float, Operands]] = []
    scarce = len(evidence) < calibration.ENOUGH_OPS
    few = scarce and not known
    for hypothesis in known if scarce and known else CANDIDATES:
        ratios = [each.ratios[hypothesis] for each in evidence]
        most = calibration.OPERANDS_LIKELY_FEW if few else calibration.OPERANDS_LIKELY
        low, high = 1.0 / most, most
        middle = statistics.median(ratios)
        if low <= middle <= high and (not few or all(low <= each <= high for each in ratios)):
            narrow = calibration.OPERANDS_SAME if hypothesis is Operands.FP16 else 0.0
            fitting.append((abs(math.log(middle)) + narrow, hypothesis))
    return min(fitting)[1] if fitting else None


def remark(chosen: ShortOperands) -> str:
    """The run's note on operand precision; "" if all families read full float32."""
    said = [
        f"{family} take their operands with {kind.bits} bits of mantissa "
        f"({kind.value.partition(',')[0]})"
        for family, kind in chosen.items()
        if kind is not Operands.FULL
    ]
    if not said:
        return ""
    return f"float32, but {' and '.join(said)}: more error than float32 explains is normal there"
