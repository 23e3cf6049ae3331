"""PyTorch calls as msprobe records them, run again by their rows, and what numpy makes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.installed import open_by
from divergraph.execute.translate.torch.alone import calls_alone
from divergraph.execute.translate.torch.executor import TorchCallsFactory
from importers.msprobe.importer import MsprobeImporter


def leaf(value: Any) -> Any:
    """An argument as a dump has it."""
    if isinstance(value, np.ndarray):
        kind = {"f": "float32", "i": "int64", "b": "bool"}[value.dtype.kind]
        return {"type": "torch.Tensor", "dtype": f"torch.{kind}", "shape": list(value.shape)}
    if isinstance(value, list) and any(isinstance(each, np.ndarray) for each in value):
        return [leaf(each) for each in value]
    return None if value is None else {"type": type(value).__name__, "value": value}


def arrays(args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of a call by place."""
    found = {}
    for place, value in (*((str(at), each) for at, each in enumerate(args)), *options.items()):
        if isinstance(value, np.ndarray):
            found[place] = value
        elif isinstance(value, list):
            inner = enumerate(value)
            found.update((f"{place}.{at}", x) for at, x in inner if isinstance(x, np.ndarray))
    return found


def run_again(
    folder: Path,
    calls: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, np.ndarray],
    name: str,
) -> list[np.ndarray]:
    """The outputs of the call *name* of a dump of *calls*, whose tensors have *values* by place."""
    content = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": calls}
    (folder / "dump.json").write_text(json.dumps(content))
    graph = MsprobeImporter().read(folder / "dump.json")
    alone = calls_alone(graph).graph
    (op,) = (op for op in alone.ops if op.name == name)
    feeds = {f"{op.id} < {place}": value for place, value in values.items()}
    names = tuple(tensor.name for tensor in op.outputs)
    with closing(open_by(TorchCallsFactory(), folder, alone, {})) as executor:
        subgraph = RunnableSubgraph("call", tuple(feeds), names)
        (result,) = executor.run_subgraphs([subgraph], lambda _: feeds)
    assert not result.failure, result.failure
    return [result.values[each] for each in names]


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    return softmax(np.where(mask, scores, -np.inf)) @ v


def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray, stride: int, pad: int) -> np.ndarray:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    size, out = w.shape[-1], (x.shape[-1] - w.shape[-1]) // stride + 1
    made = np.zeros((len(x), len(w), out, out), np.float64)
    for row in range(out):
        for column in range(out):
            at = x[
                :, :, row * stride : row * stride + size, column * stride : column * stride + size
            ]
            made[:, :, row, column] = np.einsum("nchw,ochw->no", at, w) + b
    return made
