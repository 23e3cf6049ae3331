"""Images with channels last, as TensorFlow holds them, and first, as ONNX computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.windows import SlidingWindows

_FORMATS = {"NHWC": False, "NCHW": True, "NDHWC": False, "NCDHW": True}


@dataclass(frozen=True, slots=True)
class Images:
    """How an op holds its images: with channels first, or not; ``spatial`` axes each."""

    first: bool
    spatial: int

    @property
    def axis(self) -> int:
        """The axis of the channels."""
        return 1 if self.first else self.spatial + 1

    @property
    def places(self) -> range:
        """The axes of height and width."""
        return range(2, 2 + self.spatial) if self.first else range(1, 1 + self.spatial)

    def to_first(self, p: Piece, tensor: str) -> str:
        """The images with channels first."""
        rest = range(1, 1 + self.spatial)
        return tensor if self.first else p.transpose(tensor, 0, self.spatial + 1, *rest)

    def from_first(self, p: Piece, tensor: str) -> str:
        """Images with channels first as the op holds them."""
        return tensor if self.first else p.transpose(tensor, 0, *range(2, 2 + self.spatial), 1)

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Height and width of a shape, or of an attribute with a number for each axis."""
        return tuple(int(shape[at]) for at in self.places)


def images(p: Piece, spatial: int = 2) -> Images:
    """How the op holds its images.

    Raises:
        NotTranslatedError: in a form of its own.
    """
    data_format = p.attr("data_format", "NHWC" if spatial == 2 else "NDHWC")
    if data_format not in _FORMATS:
        raise NotTranslatedError(f"{p.op.type} of images held as {data_format}")
    return Images(_FORMATS[data_format], spatial)


def windows(
    p: Piece,
    layout: Images,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int] | None = None,
) -> SlidingWindows:
    """The windows of size *kernel* of an op over images of *sizes*; *steps* are its strides where
    they are an input and no attribute.

    Source: ``GetWindowedOutputSizeVerbose`` of core/framework/kernel_shape_util.cc: SAME pads so
    that there are ceil(size / stride) windows, the odd element behind; VALID does not pad.

    Raises:
        NotTranslatedError: a padding of another name.
    """
    every = [1] * (layout.spatial + 2)
    strides = layout.sizes(steps or p.attr("strides", tuple(every)))
    dilations = layout.sizes(p.attr("dilations", tuple(every)))
    padding = p.attr("padding")
    begin, end, out = [], [], []
    explicit = list(p.attr("explicit_paddings", ()))
    for at, axis in enumerate(layout.places):
        reach = (kernel[at] - 1) * dilations[at] + 1
        if padding == "SAME":
            count = -(-sizes[at] // strides[at])
            total_pad = max((count - 1) * strides[at] + reach - sizes[at], 0)
            pad = (total_pad // 2, total_pad - total_pad // 2)
        elif padding == "VALID":
            pad = (0, 0)
        elif padding == "EXPLICIT":
            pad = (explicit[2 * axis], explicit[2 * axis + 1])
        else:
            raise NotTranslatedError(f"{p.op.type} with padding {padding}")
        begin.append(pad[0])
        end.append(pad[1])
        out.append((sizes[at] + sum(pad) - reach) // strides[at] + 1)
    return SlidingWindows(tuple(kernel), strides, dilations, tuple(begin), tuple(end), tuple(out))
