"""Names of PyTorch's functions as recorded runs have them, and where they were called."""

from __future__ import annotations

import linecache
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch.overrides import resolve_name

_OWN = str(Path(__file__).parent)
_TORCH = f"{Path(sys.modules['torch'].__file__ or '').parent}/"
_COMPILER = f"{_TORCH}_dynamo/eval_frame.py"
_FRAMES = 12
_PROPERTIES = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""Attributes that give another tensor by a computation."""


@lru_cache(maxsize=4096)
def function_name(function: Any) -> str:
    """``Functional.linear``, ``Tensor.add``, ``Torch.matmul``; empty for what is no computation."""
    name = str(getattr(function, "__name__", ""))
    if name in ("__get__", "__set__", "__delete__"):
        attribute = str(getattr(getattr(function, "__self__", None), "__name__", ""))
        is_computed = name == "__get__" and attribute in _PROPERTIES
        return f"Tensor.{attribute}" if is_computed else ""
    if hasattr(function, "overloadpacket") or hasattr(function, "overloads"):  # torch.ops
        return f"Aten.{str(function).split('.')[1]}"
    if getattr(function, "__module__", "") == "torch.nn.init":
        return ""  # it draws
    where = resolve_name(function) or ""
    if where.startswith("torch.nn.functional."):
        return f"Functional.{name}"
    return f"Tensor.{name}" if where.startswith("torch.Tensor.") else f"Torch.{name}"


def stack_of_caller() -> tuple[tuple[str, ...], bool]:
    """The frames a call came from, the innermost first, without PyTorch's own; and whether code
    that was to be compiled is among them."""
    frames: list[str] = []
    is_compiled = False
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        is_compiled |= file == _COMPILER
        if len(frames) < _FRAMES and not file.startswith((_OWN, _TORCH)):
            frames.append(_told(file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(frames), is_compiled


@lru_cache(maxsize=4096)
def _told(file: str, line: int, name: str) -> str:
    # Two machines have a script in other places, so only the end of its path tells anything.
    short = "/".join(Path(file).parts[-2:])
    return f"File {short}, line {line}, in {name}, \n {linecache.getline(file, line).strip()}"
