"""Tensors of a TFLite model as the file describes them, and how they are quantised."""

from __future__ import annotations

from dataclasses import dataclass

from graphstore.model import AttrValue, InputRef, Shape, Tensor
from importers.kept import kept_list


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a sub-graph as the file describes it."""

    name: str
    shape: Shape | None
    tensor: Tensor
    buffer: int
    scales: tuple[AttrValue, ...]
    zeros: tuple[AttrValue, ...]
    axis: int
    count: int
    """How many scales it has."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the TensorFlow ops that were fused into it, the last of them first."""
        return tuple(part for part in self.name.split(";") if part)


def quantisation(outputs: list[TensorInfo]) -> dict[str, AttrValue]:
    """Scale and zero point of quantised outputs; those past the first have their number behind."""
    attrs: dict[str, AttrValue] = {}
    for port, info in enumerate(outputs):
        if info.scales:
            end = f"_{port}" if port else ""
            attrs[f"scale{end}"] = kept_list(info.scales)
            attrs[f"zero_point{end}"] = kept_list(info.zeros)
            if len(info.scales) > 1:
                attrs[f"quantized_dimension{end}"] = info.axis
    return attrs


def weights(
    takes: list[int], tensors: list[TensorInfo], values: dict[int, InputRef]
) -> dict[str, AttrValue]:
    """How many scales quantised constants have, by the position where they are read, and the zero
    point of those with one. The scales are many and stay in the file."""
    attrs: dict[str, AttrValue] = {}
    for position, place in enumerate(takes):
        if place < 0 or values[place].producer is not None or not tensors[place].count:
            continue
        info = tensors[place]
        attrs[f"input_{position}_scales"] = info.count
        if len(info.zeros) == 1:
            attrs[f"input_{position}_zero_point"] = info.zeros[0]
    return attrs
