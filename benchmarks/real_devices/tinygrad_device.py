"""tinygrad as a device: an ONNX model run op by op on the CPU, in float32 or in 16 bits.

Its functions are polynomials of its own on top of exp2, log2 and sin; products of 16-bit values are
added up in float32. Ops whose result is not asked for are fused into those that read them, so what
they give is never rounded. Needs tinygrad and clang (``CC``), which nothing else here does.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import TensorProto

Array = npt.NDArray[Any]
_FUSED_INTO_READERS = frozenset(
    ("Add", "Sub", "Mul", "Div", "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Clip", "Cast")
)
_TYPES = {
    "float": TensorProto.FLOAT, "half": TensorProto.FLOAT16, "__bf16": TensorProto.BFLOAT16
}  # fmt: skip
"""The types of ONNX by tinygrad's names."""


@dataclass(frozen=True)
class Tinygrad:
    """The CPU backend, in ``float``, ``half`` or ``bfloat16``."""

    dtype: str

    def run(
        self, model: Path, feeds: Mapping[str, Array], only: Collection[str] | None = None
    ) -> dict[str, Array]:
        """The tensors of a run on *feeds* by name: those of *only*, or all. Raises ``ValueError``
        where tinygrad does not run the model."""
        os.environ.setdefault("DEV", "CPU")
        from tinygrad import Tensor, dtypes
        from tinygrad.nn.onnx import OnnxRunner

        graph = onnx.load_model(str(model)).graph
        weights = {each.name for each in graph.initializer}
        wanted = frozenset(
            name
            for node in graph.node
            for name in node.output
            if (only is None or name in only) and name and node.op_type != "Constant"
        )
        chosen = getattr(dtypes, self.dtype)
        given = {
            name: Tensor(value).cast(chosen) if value.dtype.kind == "f" else Tensor(value)
            for name, value in feeds.items()
            if name not in weights
        }
        try:
            runner = OnnxRunner(str(model))
            _computing_in(runner, chosen)
            runner.const_names = set()  # its short way for constant indices knows one axis only
            return dict(_values(runner, given, wanted))
        except (RuntimeError, NotImplementedError, KeyError, AssertionError) as error:
            raise ValueError(f"tinygrad does not run {model.name}: {error}") from None

    def kept(self, model: Path) -> frozenset[str]:
        """The tensors that fusion keeps: all but what elementwise ops give to one reader."""
        graph = onnx.load_model(str(model)).graph
        readers: dict[str, int] = {each.name: 2 for each in graph.output}
        for node in graph.node:
            for name in node.input:
                readers[name] = readers.get(name, 0) + 1
        return frozenset(
            name
            for node in graph.node
            for name in node.output
            if name and (node.op_type not in _FUSED_INTO_READERS or readers.get(name, 0) != 1)
        )


def _computing_in(runner: Any, dtype: Any) -> None:
    """Let *runner* hold weights and constants, and cast to floats, in *dtype*."""
    from tinygrad import Tensor, dtypes

    def held(value: Any) -> Any:
        is_float = isinstance(value, Tensor) and value.dtype == dtypes.float32
        return value.cast(dtype) if is_float else value

    runner.graph_values = {name: held(value) for name, value in runner.graph_values.items()}
    for node in runner.graph_nodes:
        node.opts.update((name, held(value)) for name, value in node.opts.items())
        if node.op == "Cast" and node.opts["to"] == TensorProto.FLOAT:
            node.opts["to"] = _TYPES[dtype.name]


def _values(runner: Any, given: Mapping[str, Any], wanted: frozenset[str]) -> Any:
    """Run *runner* and give the values of *wanted* as they are made, in float32."""
    from tinygrad import Tensor, dtypes

    values = runner.graph_values

    class _Watched(dict):  # type: ignore[type-arg]
        def update(self, made: Mapping[str, Any]) -> None:
            for name, value in made.items():
                if name in wanted and isinstance(value, Tensor):
                    made = {**made, name: value.contiguous().realize()}
            super().update(made)

    runner.graph_values = _Watched(values)
    runner(dict(given))
    for name in wanted:
        value = runner.graph_values.get(name)
        if isinstance(value, Tensor):
            yield name, (value.float() if dtypes.is_float(value.dtype) else value).numpy()
