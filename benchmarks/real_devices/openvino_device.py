"""OpenVINO's CPU plugin as a device: an ONNX model in, every tensor of its run out.

A tensor is seen by making it an output of the model, as a user of OpenVINO would. That keeps the
compiler from fusing across it, so ``kept`` tells which tensors its own fused graph still has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OpenVino:
    """The plugin with one inference precision: ``f32`` or ``bf16``. Integer models run in
    integers whatever it is."""

    precision: str

    def run(
        self, model: Path, feeds: Mapping[str, Array], only: Collection[str] | None = None
    ) -> dict[str, Array]:
        """The tensors of a run on *feeds* by name, those of *only* or all; the outputs always.
        Raises ``ValueError`` where OpenVINO cannot read the model."""
        try:
            graph = _core().read_model(str(model))
        except RuntimeError as error:
            lines = str(error).strip().splitlines()
            raise ValueError(f"OpenVINO does not read {model.name}: {lines[-1]}") from None
        outputs = {name for each in graph.outputs for name in each.get_names()}
        for op in graph.get_ordered_ops():
            if op.get_type_name() in ("Parameter", "Constant", "Result"):
                continue
            for port in op.outputs():
                names = port.get_names()
                wanted = names if only is None else names & set(only)
                if wanted and not names & outputs and port.get_element_type().is_static():
                    graph.add_outputs(port)
        compiled = self._compiled(graph)
        found = compiled(dict(feeds), share_outputs=False)
        return {
            name: np.array(value)
            for port, value in found.items()
            for name in port.get_names()
            if only is None or name in only or name in outputs
        }

    def kept(self, model: Path) -> set[str]:
        """The names of the tensors the fused graph of *model* still makes."""
        graph = _core().read_model(str(model))
        made = {op.get_friendly_name(): op for op in graph.get_ordered_ops()}
        found: set[str] = set()
        for node in self._compiled(graph).get_runtime_model().get_ordered_ops():
            layers = [each for each in _layers(node) if each in made]
            # The last of the fused ops makes the tensor; compilers list them in this order.
            if layers:
                last = made[layers[-1]]
                found.update(*(port.get_names() for port in last.outputs()))
        return found

    def _compiled(self, graph: openvino.Model) -> openvino.CompiledModel:
        settings = {"INFERENCE_PRECISION_HINT": self.precision, "INFERENCE_NUM_THREADS": "1"}
        return _core().compile_model(graph, "CPU", settings)


def _layers(node: openvino.Node) -> list[str]:
    info = node.get_rt_info()
    if "originalLayersNames" not in info:
        return []
    return [each for each in str(info["originalLayersNames"].astype(str)).split(",") if each]


def _core() -> openvino.Core:
    return openvino.Core()
