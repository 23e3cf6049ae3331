"""AIPP: images as cameras give them made into what the network takes, before its first layer.

Source: the AIPP chapters of CANN's ATC manual: crop, swap of channels, colour space conversion
(a matrix over 256), then (pixel - mean - min) times the reciprocal of the variance, by channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    ROWS,
    four_axes,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece

_CONFIG = "aipp_config_path"
"""The attribute with the configuration, as JSON."""
_CHANNELS = {"YUV420SP_U8": 3, "XRGB8888_U8": 4, "RGB888_U8": 3, "YUV400_U8": 1}


@ROWS.row("Aipp", source="CANN ATC manual, AIPP configuration")
def _aipp(piece: Piece) -> Outputs:
    configuration = _configuration(piece)
    form = str(configuration.get("input_format", ""))
    if form not in _CHANNELS:
        raise NotTranslatedError(f"Aipp of images in the format {form or 'of an unknown name'}")
    refused = [name for name in ("resize", "padding") if configuration.get(name)]
    if refused:
        raise NotTranslatedError(f"Aipp with {refused[0]}")
    there = four_axes(output_layout(piece))
    out = dict(zip(there, output_shape(piece), strict=True))
    high, wide = (
        int(configuration.get(f"src_image_size_{side}") or out[axis])
        for side, axis in (("h", "H"), ("w", "W"))
    )
    image = _pixels(piece, form, out["N"], high, wide)
    image = _cropped(piece, image, configuration, (high, wide), (out["H"], out["W"]))
    image = _swapped(piece, image, configuration, form)
    if configuration.get("csc_switch"):
        image = _converted(piece, image, configuration)
    image = _normalised(piece, image, configuration, out["C"])
    return [to_layout(piece, image, "NCHW", there)]


def _configuration(piece: Piece) -> Mapping[str, Any]:
    try:
        configuration = json.loads(str(piece.op.attrs.get(_CONFIG, "")))
    except json.JSONDecodeError:
        configuration = None
    if not isinstance(configuration, dict) or configuration.get("aipp_mode") != "static":
        raise NotTranslatedError("Aipp whose configuration is not in its graph")
    return configuration


def _pixels(piece: Piece, form: str, batch: int, high: int, wide: int) -> Expr:
    """The image as numbers, batch, channel, row, column."""
    flat = piece.cast(piece.name(0), np.float32)
    count = prod(piece.shape(0))
    channels = _CHANNELS[form]
    if form != "YUV420SP_U8":
        if count != batch * high * wide * channels:
            raise NotTranslatedError(f"Aipp of {count} bytes for images of {wide}x{high}")
        return piece.transpose(piece.reshape(flat, (batch, high, wide, channels)), 0, 3, 1, 2)
    if 2 * count != batch * high * wide * 3 or high % 2 or wide % 2:
        raise NotTranslatedError(f"Aipp of {count} bytes for images of {wide}x{high}")
    rows = piece.reshape(flat, (batch, high * wide * 3 // 2))
    first, last = piece.ints(0), piece.ints(high * wide)
    light = piece.add("Slice", rows, first, last, piece.ints(1))
    colour = piece.add("Slice", rows, last, piece.ints(high * wide * 3 // 2), piece.ints(1))
    # Below the plane of Y: U and V in turn, one pair for each block of two by two pixels.
    pairs = piece.reshape(colour, (batch, high // 2, 1, wide // 2, 1, 2))
    pairs = piece.add("Expand", pairs, piece.ints(batch, high // 2, 2, wide // 2, 2, 2))
    pairs = piece.transpose(piece.reshape(pairs, (batch, high, wide, 2)), 0, 3, 1, 2)
    return piece.add("Concat", piece.reshape(light, (batch, 1, high, wide)), pairs, axis=1)


def _cropped(
    piece: Piece,
    image: Expr,
    configuration: Mapping[str, Any],
    sizes: tuple[int, int],
    wanted: tuple[int, int],
) -> Expr:
    if not configuration.get("crop"):
        if sizes != wanted:
            raise NotTranslatedError("Aipp whose image is of another size than its output")
        return image
    first = [int(configuration.get(f"load_start_pos_{side}", 0)) for side in "hw"]
    size = [
        int(configuration.get(f"crop_size_{s}") or n) for s, n in zip("hw", wanted, strict=True)
    ]
    if tuple(size) != wanted:
        raise NotTranslatedError("Aipp whose crop is of another size than its output")
    ends = [start + count for start, count in zip(first, size, strict=True)]
    return piece.add("Slice", image, piece.ints(*first), piece.ints(*ends), piece.ints(2, 3))


def _swapped(piece: Piece, image: Expr, configuration: Mapping[str, Any], form: str) -> Expr:
    """The three channels that count, in the order the conversion takes them."""
    if form == "YUV400_U8":
        return image
    order = [0, 1, 2]
    if form == "XRGB8888_U8":  # the first one has no meaning, or the last if axes are swapped
        order = [0, 1, 2] if configuration.get("ax_swap_switch") else [1, 2, 3]
    if configuration.get("rbuv_swap_switch"):
        turned = (0, 2, 1) if form == "YUV420SP_U8" else (2, 1, 0)
        order = [order[at] for at in turned]
    return piece.add("Gather", image, piece.ints(*order), axis=1)


def _converted(piece: Piece, image: Expr, configuration: Mapping[str, Any]) -> Expr:
    """The matrix times the channels less their bias, over 256, in whole numbers of 8 bits."""
    matrix = [[float(configuration.get(f"matrix_r{r}c{c}", 0)) for c in range(3)] for r in range(3)]
    before, output_bias = (
        np.array([configuration.get(f"{side}_bias_{at}", 0) for at in range(3)], np.float32)
        for side in ("input", "output")
    )
    level = image - piece.const(before.reshape(1, 3, 1, 1))
    weights = piece.const(np.array(matrix, np.float32).reshape(3, 3, 1, 1))
    product = piece.add("Conv", level, weights)
    levels = (product / 256).floor()
    # Only a conversion to luma and chroma adds the output's bias.
    if not before.any():
        levels = levels + piece.const(output_bias.reshape(1, 3, 1, 1))
    ends = np.array(0, np.float32), np.array(255, np.float32)
    return piece.add("Clip", levels, *ends)


def _normalised(piece: Piece, image: Expr, configuration: Mapping[str, Any], channels: int) -> Expr:
    def numbers(name: str, usual: float) -> np.ndarray[Any, Any]:
        channel_numbers = [
            float(configuration.get(f"{name}_{at}", usual)) for at in range(channels)
        ]
        return np.array(channel_numbers, np.float32).reshape(1, channels, 1, 1)

    level = image - piece.const(numbers("mean_chn", 0))
    level = level - piece.const(numbers("min_chn", 0))
    return level * piece.const(numbers("var_reci_chn", 1))
