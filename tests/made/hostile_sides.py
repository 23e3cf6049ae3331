"""What stands around a hostile model: a device's graph and dump, a bundle, a dump to verify."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.conversion.graph_files import GraphFormat, convert_file
from graphstore.errors import DivergraphError
from importers.registry import read_graph

_STAMP = "1700000000"
_MOST = 1000
"""Ops with a dump: functions in functions are a million."""
_SIZES = {"Pad": (1, 2), "Range": ()}
"""Shapes of what says a size, where it is not one number in a list."""


def compare_options(model: Path, folder: Path, shape: tuple[int, ...]) -> list[object]:
    """What `compare` is given: one device op stands for the whole model, and has diverged."""
    golden, device = folder / "golden", folder / "device"
    golden.mkdir()
    device.mkdir()
    value = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    for name in ("x", "y", _golden(model)[1]):
        np.save(golden / f"{name.replace('/', '_')[:200]}.0.{_STAMP}.npy", value)
    for part, found in (("input", value), ("output", value + 3)):
        np.save(device / f"Relu.all.1.1.{_STAMP}.{part}.0.npy", found)
    graph = folder / "ge_proto_1_Build.txt"
    graph.write_text(_fused(*_golden(model), shape))
    sides = ["--golden", model, "--golden-dump", golden, "--device", graph]
    return [*sides, "--device-dump", device, "--store", folder / "store"]


def _golden(model: Path) -> tuple[list[str], str]:
    """The ops of a model, as far as it can be read, and the one that makes `y`."""
    try:
        ops = read_graph(model).ops
    except DivergraphError:
        return ["y"], "y"  # `compare` says the same
    made = (op.name for op in ops if any(out.name in ("y", "y:0") for out in op.outputs))
    return [op.name for op in ops if op.id != "x"], next(made, "y")


def _fused(names: Iterable[str], last: str, shape: tuple[int, ...]) -> str:
    dims = "".join(f"dim: {size} " for size in shape)
    described = f'dtype: DT_FLOAT shape {{ {dims}}} layout: "ND"'
    originals = "".join(f"s: {json.dumps(name)} " for name in names)
    return f"""
graph {{
  name: "net_1"
  op {{ name: "x" type: "Data" output_desc {{ {described} }} }}
  op {{
    name: "all" type: "Relu" input: "x:0" id: 1
    attr {{ key: "_datadump_original_op_names"
      value {{ list {{ {originals} val_type: VT_LIST_STRING }} }} }}
    input_desc {{ {described} }}
    output_desc {{
      {described}
      attr {{ key: "_datadump_origin_name" value {{ s: {json.dumps(last)} }} }}
      attr {{ key: "_datadump_origin_output_index" value {{ i: 0 }} }}
    }}
  }}
}}
"""


def verify_options(model: Path, folder: Path) -> list[object] | None:
    """What `verify` is given: the model as a device's graph, and a value for each output.

    None: it cannot be made one.
    """
    graph, dump, weights = (folder / name for name in ("ge_proto_2_Build.txt", "dump", "weights"))
    dump.mkdir()
    weights.mkdir()
    try:
        convert_file(model, GraphFormat.GE_PROTO, graph)
        ops = read_graph(graph).ops
    except DivergraphError:
        return None
    value = np.linspace(-1, 1, 4, dtype=np.float32)
    kinds = {(op.id, port): out.dtype for op in ops for port, out in enumerate(op.outputs)}
    for number, op in enumerate(ops[:_MOST]):
        flat = op.name.replace("/", "_")
        if op.type in ("Data", "Placeholder"):
            continue
        size = np.full(_SIZES.get(op.type, (1,)), 2**40)
        for part, count in (("input", len(op.inputs)), ("output", len(op.outputs))):
            for port in range(count):
                name = f"{op.type}.{flat}.{number}.1.{_STAMP}.{part}.{port}.npy"
                given = op.inputs[port] if part == "input" else None
                made = given.producer if given is not None else None
                kind = str(kinds.get((made.op, made.port)) if made is not None else "")
                if name.isprintable() and len(name) < 250:
                    np.save(dump / name, size if kind.startswith("int") else value)
    return [dump, "--graph", graph, "--weights", weights]


def bundle(folder: Path, model: Path, runner: str, shape: tuple[int, ...]) -> Path:
    """A bundle whose part is the model, from `x` to `y`, with all that is beside it."""
    made = folder / "bundle"
    if runner == "onnx":
        shutil.copytree(model.parent, made, symlinks=True)
    else:
        made.mkdir()
        shutil.copy(model, made)
    part = model.name
    value = np.ones(shape, np.float32)
    np.save(made / "in.npy", value)
    np.save(made / "out.npy", -value)
    port = "" if runner == "onnx" else ":0"
    tensor: Mapping[str, Any] = {"numpy": None, "codes": None}
    files = [made / name for name in (part, "in.npy", "out.npy")]
    manifest = {
        "runner": runner,
        "needs": "",
        "files": [part],
        "inner": [],
        "inputs": [
            {**tensor, "name": "x", "called": f"x{port}", "golden": "in.npy", "device": None}
        ],
        "outputs": [
            {**tensor, "name": "y", "called": f"y{port}", "golden": "out.npy", "device": None}
        ],
        "tolerance": {"golden": 1e-6, "device": 1e-6},
        "sha256": {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files},
    }
    (made / "manifest.json").write_text(json.dumps(manifest))
    return made
