"""Which original ops a device op was made of, and by what evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from graphstore.model.graph import TensorRef


class LineageRule(StrEnum):
    """The rule that found a link; the value is stored as its evidence."""

    ORIGINAL_NAMES = "original_names"
    """The device op's ``_datadump_original_op_names`` lists the original."""
    ORIGIN_OUTPUT = "origin_output"
    """The output's ``_datadump_origin_name`` / ``_output_index`` names the tensor."""
    RENAMED = "renamed"
    """A single original under another name, its output named by the op's only original."""
    SAME_NAME = "same_name"
    """The graph says nothing and both sides have an op of this name."""
    SAME_TENSOR = "same_tensor"
    """Both sides have a tensor of this name (ONNX: survives fusion)."""
    BETWEEN_TENSORS = "between_tensors"
    """The original lies between matched tensors, so only this device op can have computed it."""
    FUSION_NAME = "fusion_name"
    """The fused node's name is built from an original's name."""
    THROUGH_INSERTED = "through_inserted"
    """The value passes unchanged through an inserted Cast or TransData."""
    PINNED = "pinned"
    """The user's match file says so."""
    SAME_VALUES = "same_values"
    """The dumped values are those of one golden tensor and of no other."""
    SAME_VALUES_REORDERED = "same_values_reordered"
    """As SAME_VALUES, in another order of axes or in channel blocks."""
    RE_EXECUTED = "re_executed"
    """The original op, run on the device's own inputs, gives the device's output."""
    SAME_STRUCTURE = "same_structure"
    """The only op of this type on these inputs on both sides."""
    SAME_PLACE = "same_place"
    """Of two recorded runs: the call at the same place in the order of calls."""


@dataclass(frozen=True, slots=True)
class LineageLink:
    """Device op *device* contains original op *original*.

    ``device_port``/``original_port`` are set where the link also says which output
    tensor equals which; None where the original only is inside. ``confidence`` is between
    0 and 1; attributes and names have 1.
    """

    device: str
    original: str
    rule: LineageRule
    device_port: int | None = None
    original_port: int | None = None
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Reorder:
    """How a device tensor's values are brought into the golden tensor's order.

    First channel blocks of ``block`` (0: none) are undone: the memory of an N,C,... tensor is N,
    C/block, ..., block, C filled up with zeros. Then the axes are permuted.
    """

    block: int = 0
    axes: tuple[int, ...] = ()

    def __str__(self) -> str:
        parts = [f"channel blocks of {self.block}"] if self.block else []
        if self.axes:
            parts.append("axes " + ",".join(map(str, self.axes)))
        return ", ".join(parts) or "the same order"


@dataclass(frozen=True, slots=True)
class TensorMatch:
    """Device tensor and the golden tensor it should equal, with the rule that says so.

    ``confidence`` is between 0 and 1; names and attributes have 1.
    """

    device: TensorRef
    golden: TensorRef
    rule: LineageRule
    confidence: float = 1.0
    reorder: Reorder | None = None
