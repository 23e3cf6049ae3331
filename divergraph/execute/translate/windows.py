"""What windows put back, and what their filters saw: the gradients of convolutions, and of averages
as convolutions with ones. The same in every framework, whatever it says of padding and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from divergraph.execute.translate.piece import Expr, Piece


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """How windows go over images: ``size``, ``strides``, ``dilations`` along each axis, ``begin``
    and ``end`` elements of padding, ``out`` windows."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def pads(self) -> tuple[int, ...]:
        """The padding as ONNX lists it."""
        return (*self.begin, *self.end)


def put_back(
    piece: Piece,
    gradient: Expr,
    filters: Expr,
    over: SlidingWindows,
    sizes: Sequence[int],
    groups: int,
) -> Expr:
    """What windows put back into an image of *sizes*, channels first as *gradient*. Elements no
    window reached are zeros."""
    reached_sizes = [
        (count - 1) * stride + (size - 1) * dilation + 1
        for count, stride, size, dilation in zip(
            over.out, over.strides, over.size, over.dilations, strict=True
        )
    ]
    transposed = piece.add(
        *("ConvTranspose", gradient, filters),
        strides=over.strides,
        dilations=over.dilations,
        group=groups,
    )
    # In one go with padding ONNX Runtime refuses some of the sizes there are.
    ends_cut = [
        size - (have - begin)
        for size, have, begin in zip(sizes, reached_sizes, over.begin, strict=True)
    ]
    ends = piece.ints(0, 0, *(-begin for begin in over.begin), 0, 0, *ends_cut)
    return piece.add("Pad", transposed, ends)


def seen_by_filters(
    piece: Piece, image: Expr, gradient: Expr, over: SlidingWindows, groups: int
) -> Expr:
    """The gradient by the filters, of *image* and *gradient* with batch and channels exchanged: a
    convolution of the one with the other, strides and dilations exchanged, too."""
    convolved = piece.add(
        *("Conv", image, gradient),
        strides=over.dilations,
        dilations=over.strides,
        pads=over.pads,
        group=groups,
    )
    # Windows that reach not quite to the end leave more places than the filters have.
    axes = range(2, 2 + len(over.size))
    begins = piece.ints(*(0 for _ in axes))
    return piece.add("Slice", convolved, begins, piece.ints(*over.size), piece.ints(*axes))
