"""Element types by the names that people type."""

from __future__ import annotations

_DTYPE_WORDS = {
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
    "bf16": "bfloat16",
    "boolean": "bool",
    "fp8": "float8*",
} | {
    f"{short}{bits}": f"{long}{bits}"
    for short, long in (("i", "int"), ("u", "uint"))
    for bits in (4, 8, 16, 32, 64)
}


def canonical_dtype(word: str) -> str:
    """The name of an element type by any of its names."""
    return _DTYPE_WORDS.get(word.lower(), word.lower())
