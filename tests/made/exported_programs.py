"""Archives as ``torch.export.save`` writes them, of nodes that tests name."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_NUMBERS = {"float32": 7, "float16": 6, "int64": 5, "bool": 12}


def meta(array: np.ndarray, dtype: int = 0) -> dict[str, Any]:
    """What the file says of a tensor: element type by number, sizes, strides in elements."""
    sizes, strides = (
        [{"as_int": int(n)} for n in numbers]
        for numbers in (array.shape, (step // array.itemsize for step in array.strides))
    )
    known = dtype or _NUMBERS[str(array.dtype)]
    return {"dtype": known, "sizes": sizes, "strides": strides, "storage_offset": {"as_int": 0}}


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def node(
    target: str, outputs: str, inside: str = "", /, **inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """The operator *target* of ATen that makes *outputs* in the module *inside*."""
    stack = f"L__self__,,Net;L__self___m,{inside},torch.nn.Module" if inside else ""
    return {
        "target": target if ":" in target else f"torch.ops.aten.{target}",
        "inputs": [{"name": name, "arg": value, "kind": 1} for name, value in inputs.items()],
        "outputs": [tensor(each) for each in outputs.split()],
        "metadata": {"nn_module_stack": stack},
        "name": outputs.split()[0],
    }


def exported(
    path: Path,
    nodes: Sequence[Mapping[str, Any]],
    tensors: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    inputs: Sequence[str],
    output: str,
    **more: Any,
) -> Path:
    """An archive at *path*: *tensors* are examples of those the *nodes* make and of *inputs*;
    *weights* go by their names in the model, with dots."""
    entries, specs, values, config = [], [], {}, {}
    for name, weight in weights.items():
        own = f"p_{name.replace('.', '_')}"
        entries.append(tensor(own))
        specs.append({"parameter": {"arg": {"name": own}, "parameter_name": name}})
        values[own] = meta(weight)
        config[name] = {
            "path_name": f"weight_{len(config)}",
            "use_pickle": False,
            "tensor_meta": values[own],
        }
    for name in inputs:
        entries.append(tensor(name))
        specs.append({"user_input": {"arg": tensor(name)}})
    values.update((name, meta(array)) for name, array in tensors.items())
    values.update(more.pop("values", {}))
    graph = {
        "inputs": entries,
        "outputs": [tensor(output)],
        "nodes": list(nodes),
        "tensor_values": values,
        "sym_int_values": more.pop("sizes", {}),
    }
    signature = {
        "input_specs": specs,
        "output_specs": [{"user_output": {"arg": tensor(output)}}],
    }
    program = {"graph_module": {"graph": graph, "signature": signature}, **more}
    root = path.stem
    with zipfile.ZipFile(path, "w") as archive:
        for entry, weight in zip(config.values(), weights.values(), strict=True):
            # The storage as it lies in memory, whatever the strides of the weight.
            stored = weight.T if weight.flags.f_contiguous else weight
            name = f"{root}/data/weights/{entry['path_name']}"
            archive.writestr(name, np.ascontiguousarray(stored).tobytes())
        listed = json.dumps({"config": config})
        archive.writestr(f"{root}/data/weights/model_weights_config.json", listed)
        archive.writestr(f"{root}/models/model.json", json.dumps(program))
    return path
