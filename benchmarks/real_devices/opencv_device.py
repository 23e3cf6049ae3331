"""OpenCV's network module as a device: an ONNX model in, what its layers give out.

A layer is asked for by the name of the node it was made of, so nodes get the names of their first
outputs before. Layers that are asked for are not fused with those behind them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
_PREFIX = "onnx_node!"


@dataclass(frozen=True)
class OpenCv:
    """The CPU backend, in float32."""

    def run(
        self, model: Path, feeds: Mapping[str, Array], only: Collection[str] | None = None
    ) -> dict[str, Array]:
        """The tensors of a run on *feeds* by name: those of *only*, or all that layers give.
        Raises ``ValueError`` where OpenCV cannot read or run the model."""
        import cv2

        known = onnx.load_model(str(model))
        made = {}
        for node in known.graph.node:
            node.name = f"at {len(made)}"
            made[f"{_PREFIX}{node.name}"] = node.output[0]
        try:
            with tempfile.NamedTemporaryFile(suffix=".onnx") as named:
                onnx.save_model(known, named.name)
                net = cv2.dnn.readNetFromONNX(named.name)
            for name, value in feeds.items():
                net.setInput(np.ascontiguousarray(value), name)
            layers = [each for each in net.getLayerNames() if each in made]
            wanted = [each for each in layers if only is None or made[each] in only]
            found = self._given(net, wanted)
        except cv2.error as error:
            said = str(error).strip().splitlines()[-1]
            raise ValueError(f"OpenCV does not run {model.name}: {said}") from None
        return {made[layer]: np.array(value) for layer, value in found.items()}

    def _given(self, net: Any, layers: list[str]) -> dict[str, Array]:
        """What *layers* give, in one run; layers that were fused away anyhow are left out."""
        import cv2

        try:
            return dict(zip(layers, net.forward(layers), strict=True))
        except cv2.error:
            found = {}
            for layer in layers:
                try:
                    (found[layer],) = net.forward([layer])
                except cv2.error:
                    continue
            if not found:
                raise
            return found

    def kept(self, _model: Path) -> None:
        """All tensors of a run are those the network keeps."""
