"""Modules: run again as the function with the settings they were made with. A dump of modules by
themselves (level L0) does not say these, one of calls as well (mix) does at the call inside."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.made.recorded_calls import leaf, run_again

DRAW = np.random.default_rng(5)
IMAGE = DRAW.standard_normal((2, 8, 12, 12)).astype(np.float32)
WIDE = DRAW.standard_normal((2, 64, 4, 4)).astype(np.float32)
KERNEL = DRAW.standard_normal((8, 6, 3, 3)).astype(np.float32)
SCALE = DRAW.standard_normal(64).astype(np.float32)

CASES: dict[str, tuple[str, list[Any], tuple[int, ...]]] = {
    # The module, the function with all of its arguments and the shape that is made.
    "Conv2d": ("conv2d", [IMAGE, KERNEL.swapaxes(0, 1), None, 2, 1], (2, 6, 6, 6)),
    "ConvTranspose2d": ("conv_transpose2d", [IMAGE, KERNEL, None, 2, 1], (2, 6, 23, 23)),
    "MaxPool2d": ("max_pool2d", [IMAGE, 2], (2, 8, 6, 6)),
    "AvgPool2d": ("avg_pool2d", [IMAGE, 3], (2, 8, 4, 4)),
    "AdaptiveAvgPool2d": ("adaptive_avg_pool2d", [IMAGE, 4], (2, 8, 4, 4)),
    "GroupNorm": ("group_norm", [WIDE, 32, SCALE], WIDE.shape),
    "InstanceNorm2d": ("instance_norm", [WIDE, None, None, SCALE], WIDE.shape),
    "PReLU": ("prelu", [WIDE, SCALE], WIDE.shape),
    "PixelShuffle": ("pixel_shuffle", [IMAGE, 2], (2, 2, 24, 24)),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_a_module_gives_what_its_function_does(tmp_path, kind, way):
    function, arguments, made = CASES[kind]
    image, weight = (
        arguments[0],
        next((x for x in arguments[1:] if isinstance(x, np.ndarray)), None),
    )
    gradient = np.linspace(-1, 1, int(np.prod(made)), dtype=np.float32).reshape(made)
    result, own = np.zeros(made, np.float32), {} if weight is None else {"weight": weight}
    calls = {
        f"Module.m.{kind}.forward.0": {
            "input_args": [leaf(image)],
            "input_kwargs": {},
            "output": [leaf(result)],
            "parameters": {name: leaf(value) for name, value in own.items()},
        },
        f"Functional.{function}.0.forward": {
            "input_args": [leaf(each) for each in arguments],
            "input_kwargs": {},
            "output": [leaf(result)],
        },
    }
    for name in (f"Module.m.{kind}.backward.0", f"Functional.{function}.0.backward"):
        calls[name] = {"input": [leaf(gradient)], "output": [leaf(image)]}
    of_function = {
        str(at): each for at, each in enumerate(arguments) if isinstance(each, np.ndarray)
    }
    of_module = {"0": image} | {f"parameters.{name}": value for name, value in own.items()}
    back = {"grad.0": gradient, "made.0": result} if way == "backward" else {}
    for folder in ("module", "function"):
        (tmp_path / folder).mkdir()
    (right,) = run_again(
        tmp_path / "function", calls, of_function | back, f"Functional.{function}.0.{way}"
    )
    (seen,) = run_again(tmp_path / "module", calls, of_module | back, f"Module.m.{kind}.{way}.0")
    np.testing.assert_allclose(seen, right, rtol=1e-5, atol=1e-5)


def test_a_module_is_called_with_the_arguments_of_its_call(tmp_path):
    """An epsilon of 2, which no module has by default."""
    scale, shift = np.linspace(1, 2, 4, dtype=np.float32), np.zeros(4, np.float32)
    x = DRAW.standard_normal((3, 4)).astype(np.float32)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 2) * scale
    module, call = "Module.norm.LayerNorm.forward.0", "Functional.layer_norm.0.forward"
    own = {"weight": {**leaf(scale), "source": f"{module}.parameters.weight"}}
    own["bias"] = {**leaf(shift), "source": f"{module}.parameters.bias"}
    calls = {
        call: {
            "input_args": [leaf(x), [leaf(4)], own["weight"], own["bias"], leaf(2.0)],
            "input_kwargs": {},
            "output": [{**leaf(expected), "md5": "1"}],
        },
        module: {
            "input_args": [leaf(x)],
            "input_kwargs": {},
            "output": [{**leaf(expected), "md5": "1"}],
            "parameters": own,
        },
    }
    (tmp_path / "construct.json").write_text(json.dumps({call: module, module: None}))
    values = {"0": x, "parameters.weight": scale, "parameters.bias": shift}
    (seen,) = run_again(tmp_path, calls, values, module)
    np.testing.assert_allclose(seen, expected, rtol=1e-5, atol=1e-6)
