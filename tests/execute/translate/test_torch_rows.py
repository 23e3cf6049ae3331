"""PyTorch's calls by their rows, against what numpy makes of the same arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from divergraph.execute.contract import RunnableSubgraph
from divergraph.execute.translate.coverage import coverage
from divergraph.execute.translate.torch.alone import calls_alone, runnable
from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.execute.translate.torch.executor import TorchCallsFactory
from divergraph.execute.translate.torch.matrices import INSIDE, SHIFT
from divergraph.execute.translate.torch.second_engine import run_by_torch, with_torch
from importers.msprobe.importer import MsprobeImporter
from tests.made.recorded_calls import arrays, attention, convolved, gelu, leaf, run_again, softmax

DRAW = np.random.default_rng(3)


def real(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def put(x: np.ndarray, places: Any, value: Any) -> np.ndarray:
    made = x.copy()
    made[places] = value
    return made


def by_expert(rows: np.ndarray, experts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Rows up to each end times a matrix; no row may go to an expert, and the last to none."""
    groups = np.split(rows, ends)[: len(experts)]
    parts = [group @ expert for group, expert in zip(groups, experts, strict=True)]
    made = np.concatenate(parts)
    return np.pad(made, ((0, len(rows) - len(made)), (0, 0)))


def loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.log(softmax(x))[np.arange(len(y)), y].mean()


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
SENT, EXPERTS, ENDS = real(7, 4), real(3, 4, 5), np.array([2, 2, 6])
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
    ("Torch._grouped_mm", [SENT, EXPERTS], {"offs": ENDS}, [by_expert(SENT, EXPERTS, ENDS)]),
    ("Tensor.__setitem__", [X, "0", 2.5], {}, [put(X, 0, 2.5)]),
    ("Tensor.__setitem__", [X, "..., 1:", X[:1, :1, 1:]], {},
     [put(X, (..., slice(1, None)), X[:1, :1, 1:])]),
    ("Tensor.__setitem__", [X, PLACES[:1], X[:1] + 1], {}, [put(X, PLACES[:1], X[:1] + 1)]),
    ("Tensor.__setitem__", [X, X > 0, -1], {}, [put(X, X > 0, -1)]),
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
    ("Torch.nan_to_num", [np.where(Y > 1, np.nan, np.where(Y < -1, -np.inf, X))],
     {"neginf": -3.0}, [np.where(Y > 1, 0, np.where(Y < -1, -3, X))]),
    ("Tensor.index_copy_", [X, 1, np.array([4, 0]), Y[:, :2]], {},
     [np.concatenate([Y[:, 1:2], X[:, 1:4], Y[:, :1]], 1)]),
    ("Functional.selu", [X], {},
     [1.05070099 * np.where(X > 0, X, 1.67326324 * np.expm1(X))]),
    ("Tensor.unfold", [X, 2, 4, 2], {},
     [np.lib.stride_tricks.sliding_window_view(X, 4, 2)[:, :, ::2]]),
    ("Functional.gaussian_nll_loss", [X, Y, POSITIVE], {},
     [0.5 * (np.log(POSITIVE) + np.square(X - Y) / POSITIVE).mean()]),
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
