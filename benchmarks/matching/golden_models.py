"""Golden models for pairs: ONNX files given by path, and transformers written here.

Dimensions that a file leaves open get sizes by the names of the inputs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

sys.path.append(str(Path(__file__).parents[1] / "root_cause"))
from generated import GENERATED, Made, Sheet, gelu, heads_of, layer_norm, linear

Array = npt.NDArray[Any]
Golden = tuple[Path, dict[str, Array]]

_PICTURE = {2: 96, 3: 160}
_LETTERS = 12


def made(name: str, folder: Path) -> Golden:
    """A model written here, by its kind."""
    model, feeds = {**GENERATED, "gpt": gpt, "vit": vit}[name](1)
    path = folder / f"{name}.onnx"
    inferred = onnx.shape_inference.infer_shapes(model)
    onnx.save_model(inferred, str(path))
    return path, feeds


def given(model: Path, folder: Path) -> Golden:
    """The ONNX file at *model* with sizes for all dimensions of its inputs."""
    proto = onnx.load(str(model))
    weights = {each.name for each in proto.graph.initializer}
    rng = np.random.default_rng(3)
    feeds: dict[str, Array] = {}
    for value in proto.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        shape = [_size(value.name, place, each) for place, each in enumerate(kind.shape.dim)]
        feeds[value.name] = _values(value.name, shape, kind.elem_type, rng)
        del kind.shape.dim[:]
        for size in shape:
            kind.shape.dim.add().dim_value = size
    del proto.graph.value_info[:]
    path = folder / model.name
    onnx.save_model(proto, str(path))
    return path, feeds


def _size(name: str, place: int, dim: onnx.TensorShapeProto.Dimension) -> int:
    if dim.dim_value > 0:
        return int(dim.dim_value)
    word = dim.dim_param.lower()
    if "waveform" in name and place == 1:
        return 6000
    if name in ("input", "input_1", "char_inputs", "diac_inputs") and place == 1:
        return 576 if name == "input" else 14
    if "sequence_length" in word or word == "seq_len":
        return 3
    return _PICTURE.get(place, 1)


def _values(name: str, shape: list[int], kind: int, rng: np.random.Generator) -> Array:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if name == "sr":
        return np.full(shape, 16000, dtype)
    if "len" in name:
        return np.full(shape, 14 if name == "input_lengths" else 6000, dtype)
    if dtype.kind in "iu":
        return rng.integers(1, _LETTERS, shape).astype(dtype)
    if len(shape) == 4:
        spots = rng.normal(0, 1, (*shape[:2], -(-shape[2] // 8), -(-shape[3] // 8)))
        large = np.repeat(np.repeat(spots, 8, axis=2), 8, axis=3)[..., : shape[2], : shape[3]]
        return (large + 0.3 * rng.normal(size=shape)).astype(dtype)
    if len(shape) == 3 and shape[0] == 1 and name == "input_1":
        return rng.integers(1, _LETTERS, shape).astype(dtype)
    return rng.normal(0, 0.3, shape).astype(dtype)


def gpt(seed: int) -> Made:
    """Three blocks of causal attention from one joint product, cut in three by Split; the mask is
    computed from the length. The form decoders are exported in."""
    sheet, wide, heads, words = Sheet(np.random.default_rng(seed)), 48, 4, 16
    rng = sheet.rng
    x = sheet("Gather", sheet.constant(rng.normal(0, 1, (100, wide))), "ids")
    length = sheet("Gather", sheet("Shape", x), sheet.constant(1, np.int64))
    zero, one = sheet.constant(0, np.int64), sheet.constant(1, np.int64)
    places = sheet("Range", zero, length, one)
    x = sheet("Add", x, sheet("Gather", sheet.constant(rng.normal(0, 0.3, (64, wide))), places))
    later = sheet(
        "Less",
        sheet("Unsqueeze", places, sheet.integers(1)),
        sheet("Unsqueeze", places, sheet.integers(0)),
    )
    for _ in range(3):
        y = layer_norm(sheet, x, wide)
        joint = linear(sheet, y, wide, 3 * wide)
        parts = sheet.several("Split", joint, sheet.integers(wide, wide, wide), count=3, axis=2)
        q, k, v = (heads_of(sheet, each, heads, wide) for each in parts)
        score = sheet("MatMul", q, sheet("Transpose", k, perm=[0, 1, 3, 2]))
        score = sheet("Mul", score, sheet.constant(1 / np.sqrt(wide / heads)))
        score = sheet("Where", later, sheet.constant(-1e4), score)
        score = sheet("Softmax", score, axis=-1)
        seen = sheet("Transpose", sheet("MatMul", score, v), perm=[0, 2, 1, 3])
        seen = sheet("Reshape", seen, sheet.integers(0, 0, wide))
        x = sheet("Add", x, linear(sheet, seen, wide, wide))
        y = linear(sheet, layer_norm(sheet, x, wide), wide, 4 * wide)
        x = sheet("Add", x, linear(sheet, _tanh_gelu(sheet, y), 4 * wide, wide))
    x = sheet("MatMul", layer_norm(sheet, x, wide), sheet.weight(wide, 100))
    return sheet.model({"ids": rng.integers(0, 100, (2, words))}, [x])


def vit(seed: int) -> Made:
    """Patches of a picture and a class token through three layers of attention with layer norms."""
    sheet, wide, heads = Sheet(np.random.default_rng(seed)), 48, 3
    rng = sheet.rng
    x = sheet("Conv", "x", sheet.weight(wide, 3, 8, 8), sheet.vector(wide), strides=[8, 8])
    x = sheet("Transpose", sheet("Reshape", x, sheet.integers(0, wide, -1)), perm=[0, 2, 1])
    token = sheet("Expand", sheet.constant(rng.normal(0, 1, (1, 1, wide))), sheet.integers(2, 1, 1))
    x = sheet("Concat", token, x, axis=1)
    x = sheet("Add", x, sheet.constant(rng.normal(0, 0.3, (1, 37, wide))))
    for _ in range(3):
        y = layer_norm(sheet, x, wide)
        q, k, v = (heads_of(sheet, linear(sheet, y, wide, wide), heads, wide) for _ in range(3))
        q = sheet("Mul", q, sheet.constant((wide / heads) ** -0.5))
        score = sheet("Softmax", sheet("MatMul", q, sheet("Transpose", k, perm=[0, 1, 3, 2])))
        seen = sheet("Transpose", sheet("MatMul", score, v), perm=[0, 2, 1, 3])
        seen = sheet("Reshape", seen, sheet.integers(0, 0, wide))
        x = sheet("Add", x, linear(sheet, seen, wide, wide))
        y = linear(sheet, layer_norm(sheet, x, wide), wide, 3 * wide)
        x = sheet("Add", x, linear(sheet, gelu(sheet, y), 3 * wide, wide))
    x = layer_norm(sheet, x, wide)
    x = sheet("Gather", x, sheet.constant(0, np.int64), axis=1)
    x = sheet("Gemm", x, sheet.weight(wide, 20), sheet.vector(20))
    spots = np.repeat(np.repeat(rng.normal(0, 1, (2, 3, 6, 6)), 8, axis=2), 8, axis=3)
    picture = (spots + 0.3 * rng.normal(size=spots.shape)).astype(np.float32)
    return sheet.model({"x": picture}, [sheet("Softmax", x, axis=-1)])


def _tanh_gelu(sheet: Sheet, x: str) -> str:
    """As GPT's own code computes it."""
    cube = sheet("Mul", sheet("Pow", x, sheet.constant(3.0)), sheet.constant(0.044715))
    inner = sheet("Mul", sheet("Add", x, cube), sheet.constant(np.sqrt(2 / np.pi)))
    grown = sheet("Add", sheet("Tanh", inner), sheet.constant(1.0))
    return sheet("Mul", sheet("Mul", x, sheet.constant(0.5)), grown)
