"""PyTorch's calls by their rows, against what numpy makes of the same arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.installed import open_by
from divergraph.execute.translate.coverage import coverage
from divergraph.execute.translate.torch.alone import calls_alone, runnable
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.execute.translate.torch.executor import TorchCallsFactory
from divergraph.execute.translate.torch.matrices import INSIDE, SHIFT
from divergraph.execute.translate.torch.second_engine import run_by_torch, with_torch
from importers.msprobe.importer import MsprobeImporter

DRAW = np.random.default_rng(3)


def real(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


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


def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.log(softmax(x))[np.arange(len(y)), y].mean()


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


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    """One direction of a layer over ``x`` [batch, steps, features], as PyTorch defines it."""
    read, again, *biases = weights
    outputs = []
    for step in x.swapaxes(0, 1):
        gates = step @ read.T + h @ again.T + sum(biases)
        i, f, g, o = np.split(gates, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return [np.stack(outputs, 1), h, c]


def gru(x: np.ndarray, h: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    read, again, b, d = weights
    outputs = []
    for step in x.swapaxes(0, 1):
        r, z, n = np.split(step @ read.T + b, 3, axis=-1)
        r_h, z_h, n_h = np.split(h @ again.T + d, 3, axis=-1)
        z = sigmoid(z + z_h)
        h = (1 - z) * np.tanh(n + sigmoid(r + r_h) * n_h) + z * h
        outputs.append(h)
    return [np.stack(outputs, 1), h]


def two_ways(x: np.ndarray, h: np.ndarray, c: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    """Two layers of both directions."""
    states = []
    for layer in (0, 1):
        of_layer = weights[4 * layer : 4 * layer + 4]
        there = lstm(x, h[2 * layer], c[2 * layer], *of_layer[:2])
        back = lstm(x[:, ::-1], h[2 * layer + 1], c[2 * layer + 1], *of_layer[2:])
        x = np.concatenate([there[0], back[0][:, ::-1]], -1)
        states += [there[1:], back[1:]]
    return [x, *(np.stack([state[at] for state in states]) for at in (0, 1))]


X, Y, W, B = real(2, 5, 8), real(2, 5, 8), real(6, 8), real(6)
POSITIVE = np.abs(X) + 0.1
IMAGE, FILTERS = real(2, 3, 7, 7), real(4, 3, 3, 3)
NAMES = np.array([1, 0, 3, 2, 5])
SCORES = real(5, 7)
Q, K, V = real(2, 3, 4, 8), real(2, 3, 4, 8), real(2, 3, 4, 8)
PLACES = np.array([1, 0, 1])
STATE, OTHER_STATE = real(1, 2, 3), real(1, 2, 3)
LSTM, GRU = (
    [real(12, 8), real(12, 3), real(12), real(12)],
    [real(9, 8), real(9, 3), real(9), real(9)],
)
STATES = [real(4, 2, 3), real(4, 2, 3)]
TWO_WAYS = [real(12, size) for size in (8, 3, 8, 3, 6, 3, 6, 3)]
ORDER = np.argsort(-X, axis=-1, kind="stable")[..., :3]

CALLS: list[tuple[str, Sequence[Any], Mapping[str, Any], Sequence[np.ndarray]]] = [
    ("Functional.linear", [X, W, B], {}, [X @ W.T + B]),
    ("Torch.matmul", [Q, np.swapaxes(K, -1, -2)], {}, [Q @ np.swapaxes(K, -1, -2)]),
    ("Torch.addmm", [B, X[0], W.T], {"beta": 2, "alpha": 0.5}, [2 * B + 0.5 * (X[0] @ W.T)]),
    ("Tensor.__add__", [X, 1e-6], {}, [X + 1e-6]),
    ("Torch.add", [X, Y], {"alpha": 3}, [X + 3 * Y]),
    ("Tensor.__rsub__", [X, 1], {}, [1 - X]),
    ("Tensor.__truediv__", [X, 8], {}, [X / 8]),
    ("Tensor.__rpow__", [X, 10], {}, [10.0**X]),
    ("Torch.rsqrt", [POSITIVE], {}, [1 / np.sqrt(POSITIVE)]),
    ("Tensor.mean", [X, -1], {"keepdim": True}, [X.mean(-1, keepdims=True)]),
    ("Tensor.sum", [X], {}, [X.sum()]),
    ("Torch.var", [X], {"dim": [0, 2], "unbiased": False}, [X.var((0, 2))]),
    ("Functional.softmax", [X], {"dim": 1}, [softmax(X, 1)]),
    ("Functional.gelu", [X], {}, [gelu(X)]),
    ("Functional.silu", [X], {}, [X / (1 + np.exp(-X))]),
    ("Torch.clamp", [X], {"min": -0.5, "max": 0.25}, [X.clip(-0.5, 0.25)]),
    ("Torch.where", [X > 0, X, Y], {}, [np.where(X > 0, X, Y)]),
    ("Tensor.masked_fill", [X, Y > 0, -1.0], {}, [np.where(Y > 0, -1.0, X)]),
    ("Tensor.__gt__", [X, 0.25], {}, [X > 0.25]),
    ("Functional.embedding", [NAMES, W], {}, [W[NAMES]]),
    ("Functional.scaled_dot_product_attention", [Q, K, V], {"is_causal": True},
     [attention(Q, K, V)]),
    ("Functional.cross_entropy", [SCORES, NAMES], {}, [loss(SCORES, NAMES)]),
    ("Functional.mse_loss", [X, Y], {"reduction": "sum"}, [np.square(X - Y).sum()]),
    ("Functional.conv2d", [IMAGE, FILTERS, B[:4], [2, 2], [1, 1]], {},
     [convolved(IMAGE, FILTERS, B[:4].reshape(1, 4), 2, 1)]),
    ("Torch.cat", [[X, Y], 1], {}, [np.concatenate([X, Y], 1)]),
    ("Torch.stack", [[X, Y]], {"dim": -1}, [np.stack([X, Y], -1)]),
    ("Tensor.permute", [X, 2, 0, 1], {}, [X.transpose(2, 0, 1)]),
    ("Tensor.transpose", [X, 1, 2], {}, [X.transpose(0, 2, 1)]),
    ("Tensor.view", [X, 10, -1], {}, [X.reshape(10, -1)]),
    ("Tensor.T", [X[0]], {}, [X[0].T]),
    ("Tensor.mT", [X], {}, [np.swapaxes(X, -1, -2)]),
    ("Tensor.__getitem__", [X, "..., 1:-1:2"], {}, [X[..., 1:-1:2]]),
    ("Tensor.__getitem__", [X, "-1, :3, None"], {}, [X[-1, :3, None]]),
    ("Tensor.__getitem__", [X, "1:, 0"], {}, [X[1:, 0]]),
    ("Tensor.__getitem__", [X, PLACES], {}, [X[PLACES]]),
    ("Tensor.__getitem__", [X, X > 0], {}, [X[X > 0]]),
    ("Tensor.__getitem__", [X, X[:, 0, 0] > -9], {}, [X]),
    ("Tensor.__getitem__", [X, ["slice(None, None, None)", PLACES]], {}, [X[:, PLACES]]),
    ("Tensor.__getitem__", [X, ["slice(1, None, None)", "slice(None, None, 2)", PLACES]], {},
     [X[1:, ::2, PLACES]]),
    ("Tensor.__getitem__", [X, ["Ellipsis", PLACES, 0]], {}, [X[..., PLACES, 0]]),
    ("Tensor.__getitem__", [X, [PLACES, "slice(None, None, None)", PLACES[:1]]], {},
     [X[PLACES, :, PLACES[:1]]]),
    ("Tensor.__getitem__", [X, [PLACES, None, "slice(None, None, None)"]], {},
     [X[PLACES, None, :]]),
    ("Tensor.__getitem__", [X, [0, PLACES.reshape(1, -1)]], {}, [X[0, PLACES.reshape(1, -1)]]),
    ("Torch.lstm", [X, [STATE, OTHER_STATE], LSTM, True, 1, 0.0, False, False, True], {},
     [each.reshape(shape) for each, shape in
      zip(lstm(X, STATE[0], OTHER_STATE[0], *LSTM), [(2, 5, 3), (1, 2, 3), (1, 2, 3)],
          strict=True)]),
    ("Torch.lstm", [X, STATES, TWO_WAYS, False, 2, 0.0, False, True, True], {},
     two_ways(X, *STATES, *TWO_WAYS)),
    ("Torch.gru", [X, STATE, GRU, True, 1, 0.0, False, False, True], {},
     [each.reshape(shape) for each, shape in
      zip(gru(X, STATE[0], *GRU), [(2, 5, 3), (1, 2, 3)], strict=True)]),
    ("Torch.where", [X > 0], {}, list(np.nonzero(X > 0))),
    ("Torch.nonzero", [X > 0], {}, [np.argwhere(X > 0)]),
    ("Torch.chunk", [X, 2, -1], {}, np.split(X, 2, -1)),
    ("Torch.topk", [X, 3], {}, [np.take_along_axis(X, ORDER, -1), ORDER]),
    ("Torch.gather", [X, -1, ORDER], {}, [np.take_along_axis(X, ORDER, -1)]),
    ("Torch.cumsum", [X, 1], {}, [X.cumsum(1)]),
    ("Torch.tril", [SCORES, 1], {}, [np.tril(SCORES, 1)]),
    ("Torch.einsum", ["bsd,ed->bse", X, W], {}, [X @ W.T]),
    ("Torch._foreach_norm", [[X, W]], {}, [np.sqrt(np.square(a).sum()) for a in (X, W)]),
    ("Tensor.lerp_", [X, Y, 0.1], {}, [X + 0.1 * (Y - X)]),
    ("Tensor.addcmul_", [X, Y, POSITIVE], {"value": 0.05}, [X + 0.05 * Y * POSITIVE]),
    ("Tensor.addcdiv_", [X, Y, POSITIVE], {"value": -0.03}, [X - 0.03 * Y / POSITIVE]),
]  # fmt: skip


@pytest.mark.parametrize(("api", "args", "options", "made"), CALLS, ids=[c[0] for c in CALLS])
def test_a_call_gives_what_its_arguments_say(api, args, options, made, tmp_path):
    name = f"{api}.0.forward"
    entry = {
        "input_args": [leaf(each) for each in args],
        "input_kwargs": {key: leaf(each) for key, each in options.items()},
        "output": [leaf(np.asarray(each)) for each in made],
    }
    outputs = run_again(tmp_path, {name: entry}, arrays(args, options), name)
    for own, right in zip(outputs, made, strict=True):
        np.testing.assert_allclose(own, right, rtol=2e-5, atol=2e-5)


@pytest.mark.torch
@pytest.mark.parametrize(("api", "args", "options", "made"), CALLS, ids=[c[0] for c in CALLS])
def test_pytorch_gives_what_the_row_gives(api, args, options, made, tmp_path):
    name = f"{api}.0.forward"
    entry = {
        "input_args": [leaf(each) for each in args],
        "input_kwargs": {key: leaf(each) for key, each in options.items()},
        "output": [leaf(np.asarray(each)) for each in made],
    }
    content = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": {name: entry}}
    (tmp_path / "dump.json").write_text(json.dumps(content))
    (op,) = calls_alone(MsprobeImporter().read(tmp_path / "dump.json")).graph.ops
    feeds = {f"{op.id} < {place}": value for place, value in arrays(args, options).items()}
    outputs = run_by_torch(op, feeds)
    assert outputs is not None
    for own, right in zip(outputs, made, strict=True):
        np.testing.assert_allclose(own, right, rtol=2e-5, atol=2e-5)


def test_a_function_that_takes_no_tensors_is_never_called(tmp_path):
    name = "Torch.load.0.forward"
    entry = {"input_args": [leaf(X), leaf("file")], "input_kwargs": {}, "output": [leaf(X)]}
    content = {"task": "tensor", "framework": "pytorch", "data": {name: entry}}
    (tmp_path / "dump.json").write_text(json.dumps(content))
    (op,) = calls_alone(MsprobeImporter().read(tmp_path / "dump.json")).graph.ops
    assert run_by_torch(op, {f"{name} < 0": X}) is None
    assert "load" not in with_torch(ROWS, [op])


def slope(function: Any, args: Sequence[Any], at: int, gradient: np.ndarray) -> np.ndarray:
    """The gradient of what *function* makes by its argument *at*, by central differences."""
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
            for a in args]  # fmt: skip
    found = np.zeros(wide[at].shape)
    for place in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [a.copy() if isinstance(a, np.ndarray) else a for a in wide]
            moved[at][place] += step
            ends.append((function(*moved) * gradient).sum())
        found[place] = (ends[0] - ends[1]) / 2e-5
    return found


SMALL, OTHER = real(2, 3, 4), real(2, 3, 4)
SHARES = DRAW.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
TRUTH = (X > 0.2).astype(np.float32)
TRUE = DRAW.integers(0, 2, (3, 4)).astype(np.float32)


SORTED = np.argsort(DRAW.random((3, 4)), 1)


def scattered(x: np.ndarray, at: np.ndarray, by: np.ndarray) -> np.ndarray:
    made = x.copy()
    np.put_along_axis(made, at, by, 1)
    return made


def huber(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    size = np.abs(x - y)
    return np.where(size < 0.5, size**2, size - 0.25).mean()


def spread_out(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A transposed convolution with steps of two."""
    made = np.zeros((len(x), w.shape[1], 2 * (x.shape[2] - 1) + w.shape[2]))
    for at in range(x.shape[2]):
        made[..., 2 * at : 2 * at + w.shape[2]] += np.einsum("bi,iok->bok", x[..., at], w)
    return made


BACK: list[tuple[str, Sequence[Any], Mapping[str, Any], Any, Sequence[int]]] = [
    ("Functional.silu", [SMALL], {}, lambda x: x / (1 + np.exp(-x)), [0]),
    ("Functional.gelu", [SMALL], {}, gelu, [0]),
    ("Functional.softmax", [SMALL], {"dim": -1}, softmax, [0]),
    ("Tensor.pow", [SMALL, 3], {}, lambda x, n: x**n, [0]),
    ("Torch.rsqrt", [np.abs(SMALL) + 1], {}, lambda x: 1 / np.sqrt(x), [0]),
    ("Tensor.__mul__", [SMALL, OTHER[0, 0]], {}, lambda a, b: a * b, [0, 1]),
    ("Tensor.__truediv__", [SMALL, np.abs(OTHER) + 1], {}, lambda a, b: a / b, [0, 1]),
    ("Tensor.mean", [SMALL, -1], {}, lambda x, axis: x.mean(axis), [0]),
    ("Tensor.view", [SMALL, 6, 4], {}, lambda x, *sizes: x.reshape(sizes), [0]),
    ("Tensor.permute", [SMALL, 2, 0, 1], {}, lambda x, *axes: x.transpose(axes), [0]),
    ("Tensor.__getitem__", [SMALL, "..., 1:3"], {}, lambda x, _: x[..., 1:3], [0]),
    ("Tensor.__getitem__", [SMALL, PLACES], {}, lambda x, at: x[at], [0]),
    ("Tensor.repeat_interleave", [SMALL, 2, 1], {}, np.repeat, [0]),
    ("Tensor.expand", [SMALL[:, :1], 2, 3, 4], {},
     lambda x, *sizes: np.broadcast_to(x, sizes), [0]),
    ("Functional.layer_norm", [SMALL, [4], OTHER[0, 0], OTHER[0, 1]], {"eps": 0.1},
     lambda x, _, w, b: (x - x.mean(-1, keepdims=True))
     / np.sqrt(x.var(-1, keepdims=True) + 0.1) * w + b, [0, 2, 3]),
    ("Functional.scaled_dot_product_attention", [SMALL, OTHER, SMALL * 0.5],
     {"is_causal": True}, attention, [0, 1, 2]),
    ("Functional.conv2d", [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3), [2, 2], [1, 1]], {},
     lambda x, w, b, *_: convolved(x, w, b.reshape(1, 3), 2, 1), [0, 1, 2]),
    ("Functional.max_pool2d", [real(2, 2, 5, 5), [3, 3]], {"stride": [1, 1]},
     lambda x, _: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((-1, -2)), [0]),
    ("Functional.leaky_relu", [X, 0.2], {}, lambda x, a: np.where(x > 0, x, a * x), [0]),
    ("Functional.elu", [X, 0.7], {}, lambda x, a: np.where(x > 0, x, a * np.expm1(x)), [0]),
    ("Functional.hardtanh", [X, -0.5, 0.8], {}, lambda x, low, high: x.clip(low, high), [0]),
    ("Functional.relu6", [X * 4], {}, lambda x: x.clip(0, 6), [0]),
    ("Functional.hardswish", [X * 3], {}, lambda x: x * (x / 6 + 0.5).clip(0, 1), [0]),
    ("Functional.mish", [X], {}, lambda x: x * np.tanh(np.log1p(np.exp(x))), [0]),
    ("Functional.logsigmoid", [X], {}, lambda x: -np.log1p(np.exp(-x)), [0]),
    ("Torch.log1p", [np.abs(X)], {}, np.log1p, [0]),
    ("Torch.square", [X], {}, np.square, [0]),
    ("Torch.clamp", [X], {"min": -0.4, "max": 0.9}, lambda x: x.clip(-0.4, 0.9), [0]),
    ("Functional.glu", [real(3, 8)], {}, lambda x: x[:, :4] / (1 + np.exp(-x[:, 4:])), [0]),
    ("Functional.prelu", [real(2, 3, 4), np.abs(real(3))], {},
     lambda x, w: np.where(x > 0, x, w[:, None] * x), [0, 1]),
    ("Functional.binary_cross_entropy", [SHARES, TRUE], {},
     lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)).mean(), [0]),
    ("Functional.binary_cross_entropy_with_logits", [X, TRUTH], {"reduction": "sum"},
     lambda x, y: (np.log1p(np.exp(x)) - x * y).sum(), [0]),
    ("Functional.conv_transpose1d", [real(2, 3, 5), real(3, 2, 4), None, 2, 1], {},
     lambda x, w, *_: spread_out(x, w)[..., 1:-1], [0, 1]),
    ("Functional.avg_pool1d", [real(2, 2, 7), [3], [2], [1]], {},
     lambda x, *_: np.stack([np.pad(x, ((0, 0), (0, 0), (1, 1)))[..., at:at + 3].mean(-1)
                             for at in (0, 2, 4, 6)], -1), [0]),
    ("Functional.adaptive_avg_pool1d", [real(2, 2, 7), 3], {},
     lambda x, _: np.stack([x[..., a:b].mean(-1) for a, b in ((0, 3), (2, 5), (4, 7))], -1), [0]),
    ("Functional.interpolate", [real(2, 2, 4)], {"size": [7], "mode": "nearest"},
     lambda x: x[..., [0, 0, 1, 1, 2, 2, 3]], [0]),
    ("Functional.interpolate", [real(2, 2, 4)],
     {"size": [7], "mode": "linear", "align_corners": True},
     lambda x: np.stack([(x[..., at // 2] + x[..., (at + 1) // 2]) / 2 for at in range(7)], -1),
     [0]),
    # those that follow from the rows of their ways there
    ("Torch.std", [SMALL, 1], {}, lambda x, axis: x.std(axis, ddof=1), [0]),
    ("Torch.var", [SMALL, [0, 2]], {"correction": 0}, lambda x, _: x.var((0, 2)), [0]),
    ("Tensor.norm", [SMALL], {"dim": -1}, lambda x: np.sqrt((x**2).sum(-1)), [0]),
    ("Torch.logsumexp", [SMALL, -1], {}, lambda x, axis: np.log(np.exp(x).sum(axis)), [0]),
    ("Torch.amax", [SMALL, 2], {}, lambda x, axis: x.max(axis), [0]),
    ("Torch.prod", [SMALL + 2, 1], {}, lambda x, axis: x.prod(axis), [0]),
    ("Torch.erf", [X], {}, np.vectorize(math.erf), [0]),
    ("Torch.atan", [X], {}, np.arctan, [0]),
    ("Functional.softsign", [X], {}, lambda x: x / (1 + np.abs(x)), [0]),
    ("Torch.maximum", [SMALL, OTHER], {}, np.maximum, [0, 1]),
    ("Tensor.flip", [SMALL, [1, 2]], {}, lambda x, _: x[:, ::-1, ::-1], [0]),
    ("Torch.roll", [SMALL, 2, 1], {}, np.roll, [0]),
    ("Tensor.repeat", [SMALL, 1, 2, 1], {}, lambda x, *by: np.tile(x, by), [0]),
    ("Torch.tril", [SMALL], {}, np.tril, [0]),
    ("Functional.pad", [SMALL, [1, 2]], {}, lambda x, _: np.pad(x, ((0, 0),) * 2 + ((1, 2),)), [0]),
    ("Torch.gather", [TRUE, 1, SORTED], {},
     lambda x, axis, at: np.take_along_axis(x, at, axis), [0]),
    ("Tensor.scatter", [SHARES, 1, SORTED, real(3, 4)], {},
     lambda x, axis, at, by: scattered(x, at, by), [0, 3]),
    ("Functional.instance_norm", [SMALL], {}, lambda x: (x - x.mean(-1, keepdims=True))
     / np.sqrt(x.var(-1, keepdims=True) + 1e-5), [0]),
    ("Functional.rms_norm", [SMALL, [4], OTHER[0, 0]], {"eps": 0.1},
     lambda x, _, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1) * w, [0, 2]),
    ("Functional.smooth_l1_loss", [SHARES, OTHER[0] * 2], {"beta": 0.5}, huber, [0]),
    ("Functional.kl_div", [OTHER[1], SHARES], {"reduction": "sum"},
     lambda x, y: (y * (np.log(y) - x)).sum(), [0]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "args", "options", "function", "by"), BACK, ids=[c[0] for c in BACK]
)
def test_a_way_back_gives_the_gradient_of_its_way_there(api, args, options, function, by, tmp_path):
    made = np.asarray(function(*args), np.float32)
    gradient = real(*made.shape)
    right = [slope(function, args, at, gradient) for at in by]
    calls = {
        f"{api}.0.forward": {
            "input_args": [leaf(each) for each in args],
            "input_kwargs": {key: leaf(each) for key, each in options.items()},
            "output": [leaf(made)],
        },
        f"{api}.0.backward": {
            "input": [leaf(gradient)],
            "output": [leaf(each.astype(np.float32)) for each in right],
        },
    }
    values = {**arrays(args, options), "grad.0": gradient, "made.0": made}
    outputs = run_again(tmp_path, calls, values, f"{api}.0.backward")
    for own, wanted in zip(outputs, right, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=2e-3, atol=2e-4)


def logits_loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shares = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return -shares[np.arange(len(y)), y].mean()


OWN: list[tuple[str, Sequence[Any], Any, Sequence[int]]] = [
    ("Functional.linear", [SMALL, real(5, 4), real(5)], lambda x, w, b: x @ w.T + b, [0, 1, 2]),
    ("Tensor.matmul", [real(2, 1, 3, 4), real(3, 4, 2)], np.matmul, [0, 1]),
    ("Functional.cross_entropy", [SCORES, NAMES], logits_loss, [0]),
    ("Torch.einsum", ["bij,bjk->bk", SMALL, real(2, 4, 5)], np.einsum, [1, 2]),
    ("Functional.conv_transpose1d", [real(2, 4, 5), real(4, 1, 4), None, 2, 1, 0, 2],
     lambda x, w, *_: np.concatenate([spread_out(x[:, :2], w[:2]), spread_out(x[:, 2:], w[2:])],
                                     1)[..., 1:-1], [0, 1]),
    ("Functional.normalize", [SMALL], lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), [0]),
    ("Functional.cosine_similarity", [OTHER[1], OTHER[0]],
     lambda x, y: (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1), [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("api", "args", "function", "by"), OWN, ids=[c[0] for c in OWN])
def test_a_call_of_several_nodes_has_gradients_of_its_own(api, args, function, by, tmp_path):
    made = np.asarray(function(*args), np.float32)
    gradient = real(*made.shape)
    right = {f"by_{at}": slope(function, args, at, gradient) for at in by}
    calls = {
        f"{api}.0.forward": {
            "input_args": [leaf(each) for each in args],
            "input_kwargs": {},
            "output": [leaf(made)],
        },
        f"{api}.0.backward": {
            "input": [leaf(gradient)],
            "output": {at: leaf(each.astype(np.float32)) for at, each in right.items()},
        },
    }
    values = {**arrays(args, {}), "grad.0": gradient, "made.0": made}
    outputs = run_again(tmp_path, calls, values, f"{api}.0.backward")
    for own, wanted in zip(outputs, right.values(), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=2e-3, atol=2e-4)


def test_what_draws_or_slices_is_refused_with_a_reason(tmp_path):
    name = "Functional.dropout.0.forward"
    entry = {"input_args": [leaf(X), leaf(0.5)], "input_kwargs": {}, "output": [leaf(X)]}
    content = {"task": "tensor", "framework": "pytorch", "data": {name: entry}}
    (tmp_path / "dump.json").write_text(json.dumps(content))
    alone = runnable(MsprobeImporter().read(tmp_path / "dump.json"))
    with closing(TorchCallsFactory().open(tmp_path, alone)) as executor:
        piece = RunnableSubgraph("", (f"{name} < 0",), (f"{name}.output.0",))
        (result,) = executor.run_subgraphs([piece], lambda _: {f"{name} < 0": X})
    assert "draws random numbers" in result.failure


def test_coverage_counts_calls_by_rows(tmp_path):
    entry = {"input_args": [leaf(X)], "input_kwargs": {}, "output": [leaf(X)]}
    data = {"Functional.silu.0.forward": entry, "Functional.strange.0.forward": entry}
    content = {"task": "tensor", "framework": "pytorch", "data": data}
    (tmp_path / "dump.json").write_text(json.dumps(content))
    found = coverage(runnable(MsprobeImporter().read(tmp_path / "dump.json")))
    assert (found.ops, found.translated, dict(found.without)) == (2, 1, {"strange": 1})


def test_every_row_names_its_source():
    assert all(entry.source for entry in ROWS.entries.values())
    assert len(ROWS.entries) > 250


def attention_run(folder, altered, masks, **arguments):
    """Attention of Q, K and V as recorded with *arguments*, run with attributes *altered*."""
    name = "Functional.scaled_dot_product_attention.0.forward"
    given = [leaf(each) for each in (Q, K, V, *masks)]
    said = {key: {"type": type(value).__name__, "value": value} for key, value in arguments.items()}
    entry = {"input_args": given, "input_kwargs": said, "output": [leaf(V)]}
    content = {"task": "tensor", "framework": "pytorch", "data": {name: entry}}
    (folder / "dump.json").write_text(json.dumps(content))
    alone = runnable(MsprobeImporter().read(folder / "dump.json"))
    output = f"{name}.output.0"
    feeds = {f"{name} < {at}": value for at, value in enumerate((Q, K, V, *masks))}
    with closing(TorchCallsFactory().open(folder, alone)) as executor:
        piece = RunnableSubgraph("", tuple(feeds), (output,))
        made = executor.run_altered(piece, feeds, output, altered)
    assert made is not None
    return made[output]


def test_attention_can_round_between_its_products(tmp_path):
    made = attention_run(tmp_path, {INSIDE: "fp16"}, ())
    shares = softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(8)).astype(np.float16)
    np.testing.assert_allclose(made, shares.astype(np.float32) @ V, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_attention_can_allow_later_positions_than_its_mask_does(shift, tmp_path):
    scores = Q @ np.swapaxes(K, -1, -2) / math.sqrt(8)
    rows, columns = scores.shape[-2:]
    allowed = np.tril(np.ones((rows, columns), bool))
    wanted = np.tril(np.ones((rows, columns), bool), shift)
    expected = softmax(np.where(wanted, scores, -1e9)) @ V
    causal = attention_run(tmp_path, {SHIFT: shift}, (), is_causal=True)
    masked = attention_run(tmp_path, {SHIFT: shift}, (allowed,))
    for made in (causal, masked):  # a row of which nothing is allowed is not a number
        np.testing.assert_allclose(made[..., 1:-1, :], expected[..., 1:-1, :], rtol=1e-4)
