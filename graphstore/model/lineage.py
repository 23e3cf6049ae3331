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
    """The original lies between matched tensors: only this device op can have done it."""
    FUSION_NAME = "fusion_name"
    """The fused node's name is built from an original's name."""
    THROUGH_INSERTED = "through_inserted"
    """The value passes unchanged through an inserted Cast or TransData."""


@dataclass(frozen=True, slots=True)
class LineageLink:
    """Device op *device* contains original op *original*.

    ``device_port``/``original_port`` are set where the link also says which output
    tensor equals which; None where the original only is inside.
    """

    device: str
    original: str
    rule: LineageRule
    device_port: int | None = None
    original_port: int | None = None


@dataclass(frozen=True, slots=True)
class TensorMatch:
    """Device tensor and the golden tensor it should equal, with the rule that says so."""

    device: TensorRef
    golden: TensorRef
    rule: LineageRule
