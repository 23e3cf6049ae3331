"""Models of timm and transformers with random weights, exported for ``run.py``: none was made here.

    python benchmarks/real_devices/exported_models.py FOLDER [NAME...]
    python benchmarks/real_devices/run.py --models FOLDER/swin.onnx,FOLDER/gpt2.onnx --healthy

Needs torch, timm, transformers and onnxscript, which nothing else here does. Beside each model its
inputs are written as ``.npz``. Parameters that start as one value, as those of norms do, are
spread, and batch norms are given the statistics of their inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import transformers
from torch import Tensor, nn

VISION: Mapping[str, tuple[str, int, dict[str, Any]]] = {
    "convnext": ("convnext_atto", 96, {}),
    "mobilevit": ("mobilevitv2_050", 128, {}),
    "ghost": ("ghostnetv2_100", 96, {}),
    "mixer": ("mixer_s32_224", 224, {}),
    "repvgg": ("repvgg_a0", 96, {}),
    "levit": ("levit_128s", 224, {}),
    "efficientnet": ("efficientnet_lite0", 96, {}),
    "regnet": ("regnety_002", 96, {}),
    "swin": (
        "swin_tiny_patch4_window7_224",
        112,
        {
            "img_size": 112,
            "embed_dim": 24,
            "depths": (2, 2, 2),
            "num_heads": (1, 2, 4),
        },
    ),
}
"""By our name the name of timm, the width of an image, and its settings."""
_SMALL = {"num_hidden_layers": 3, "num_attention_heads": 6, "hidden_size": 96, "vocab_size": 300}
LANGUAGE: Mapping[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**_SMALL, "intermediate_size": 192}),
    "gpt2": ("GPT2", {"vocab_size": 300, "n_embd": 96, "n_layer": 3, "n_head": 4}),
    "llama": ("Llama", {**_SMALL, "num_key_value_heads": 2, "intermediate_size": 256}),
}
"""By our name the name of transformers, and its settings."""


class _Output(nn.Module):
    """A model as a function of tensors, with one output."""

    def __init__(self, model: nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(self.model, *inputs)


def vision(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A classifier of twenty classes, and an image."""
    architecture, width, settings = VISION[name]
    model = timm.create_model(architecture, pretrained=False, num_classes=20, **settings)
    smooth = nn.AvgPool2d(3, 1, 1)
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(smooth(2 * torch.randn(4, 3, width, width)))
    return model, {"x": smooth(2 * torch.randn(1, 3, width, width))}


def language(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A transformer, and its words."""
    architecture, settings = LANGUAGE[name]
    config = getattr(transformers, f"{architecture}Config")(
        **settings, attn_implementation="eager", use_cache=False
    )
    model = getattr(transformers, f"{architecture}Model")(config)
    called = _Output(model, lambda model, ids: model(input_ids=ids).last_hidden_state)
    return called, {"ids": torch.randint(0, 300, (1, 32))}


def main() -> None:
    """Export what is asked for, or all."""
    folder, *names = sys.argv[1:]
    torch.manual_seed(11)
    for name in names or (*VISION, *LANGUAGE):
        model, inputs = (vision if name in VISION else language)(name)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 1 and parameter.numel() > 1 and not parameter.std():
                    parameter.add_(0.2 * torch.randn_like(parameter))
        path = Path(folder) / f"{name}.onnx"
        torch.onnx.export(
            model.eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            dynamo=True,
            external_data=False,
            opset_version=18,
        )
        np.savez(path.with_suffix(".npz"), **{key: each.numpy() for key, each in inputs.items()})


if __name__ == "__main__":
    main()
