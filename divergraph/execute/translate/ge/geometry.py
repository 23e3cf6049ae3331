"""Strides, paddings and dilations of windows, as GE's ops say them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import integers
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.windows import SlidingWindows
from graphstore.model import AttrValue, Op

_BOTH = 2


@dataclass(frozen=True, slots=True)
class Geometry:
    """Along height and width; ``pads`` are top, left, bottom, right, as ONNX has them."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int] = (1, 1)

    def over(self, kernel: tuple[int, int], outs: Sequence[int]) -> SlidingWindows:
        """Windows of size *kernel* that make *outs* rows and columns."""
        begin, end = self.pads[:_BOTH], self.pads[_BOTH:]
        return SlidingWindows(kernel, self.strides, self.dilations, begin, end, tuple(outs))


def geometry(piece: Piece, axes: str) -> Geometry:
    """The geometry of an op whose tensor's axes are in this order.

    Raises:
        NotTranslatedError: strides or paddings are not in the graph.
    """
    op = piece.op
    strides = along_space(op, ("strides", "stride"), axes)
    pads = integers(op.attrs.get("pads", op.attrs.get("pad")))
    if strides is None or len(pads) not in (2, 4):
        raise NotTranslatedError(f"{op.type} whose graph gives no strides or paddings")
    top, bottom, left_pad, right = pads if len(pads) != _BOTH else (pads[0],) * 2 + (pads[1],) * 2
    if min(pads) < 0:
        raise NotTranslatedError(f"{op.type} whose paddings are found at run time")
    dilations = along_space(op, ("dilations", "dilation"), axes) or (1, 1)
    return Geometry(strides, (top, left_pad, bottom, right), dilations)


def along_space(op: Op, names: tuple[str, ...], axes: str) -> tuple[int, int] | None:
    """An attribute of two numbers, or of one for each axis, along height and width; GE gives it in
    the order of the original tensor, whatever ``data_format`` says."""
    settings = (height_and_width(integers(op.attrs.get(name)), axes) for name in names)
    return next((setting for setting in settings if setting is not None), None)


def height_and_width(numbers: tuple[int, ...], axes: str) -> tuple[int, int] | None:
    """What one number, two, or one for each axis say of height and width; None if they do not."""
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    if len(numbers) == _BOTH:
        return numbers[0], numbers[1]
    if len(numbers) != len(axes):
        return None
    by_axis = dict(zip(axes, numbers, strict=True))
    if by_axis["N"] != 1 or by_axis["C"] != 1:
        other = dict(zip("NCHW" if axes != "NCHW" else "NHWC", numbers, strict=True))
        by_axis = other if other["N"] == other["C"] == 1 else by_axis
    return by_axis["H"], by_axis["W"]


def fitting(size: int, kernel: int, out: int) -> Iterator[tuple[int, int, int]]:
    """The strides and paddings (before, after) by which a window of *kernel* makes *out* of *size*:
    as large as the output needs (SAME), none (VALID), or the same on both ends."""
    for stride in range(1, max(kernel, 2) + 1):
        if -(-size // stride) == out:
            total = max((out - 1) * stride + kernel - size, 0)
            yield stride, total // 2, total - total // 2
        for pad in range((kernel + 1) // 2):
            if size + 2 * pad >= kernel and (size + 2 * pad - kernel) // stride + 1 == out:
                yield stride, pad, pad


def square_geometries(
    sizes: Mapping[str, int], kernel: tuple[int, int], outs: Mapping[str, int]
) -> Iterator[dict[str, AttrValue]]:
    """The attributes that fit these sizes along H and W, each once: the smallest strides first, and
    the same along both where that fits."""
    high = list(dict.fromkeys(fitting(sizes["H"], kernel[0], outs["H"])))
    wide = list(dict.fromkeys(fitting(sizes["W"], kernel[1], outs["W"])))
    for one in high:
        for other in wide:
            if sizes["H"] == sizes["W"] and kernel[0] == kernel[1] and one != other:
                continue
            if one[0] == other[0]:
                pads = (one[1], one[2], other[1], other[2])
                yield {"strides": (one[0], other[0]), "pads": pads}
