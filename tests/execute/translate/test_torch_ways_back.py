"""Ways back of PyTorch's calls by their rows, against differences of what numpy makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.made.recorded_calls import arrays, attention, convolved, gelu, leaf, run_again, softmax

DRAW = np.random.default_rng(3)


def real(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


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


def by_expert(rows: np.ndarray, experts: np.ndarray) -> np.ndarray:
    groups = np.split(rows, ENDS)[: len(experts)]
    made = np.concatenate([group @ one for group, one in zip(groups, experts, strict=True)])
    return np.pad(made, ((0, len(rows) - len(made)), (0, 0)))


ENDS = np.array([2, 2, 6])
X, SMALL, OTHER = real(2, 5, 8), real(2, 3, 4), real(2, 3, 4)
SCORES, NAMES = real(5, 7), np.array([1, 0, 3, 2, 5])
PLACES = np.array([1, 0, 1])
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


def half_steps(x: np.ndarray) -> np.ndarray:
    """Between two columns the cubic kernel's shares, of which those of the edge count twice."""
    wide = np.pad(x, ((0, 0),) * 3 + ((1, 1),), mode="edge")
    between = np.array([-0.09375, 0.59375, 0.59375, -0.09375])
    made = np.repeat(x, 2, -1)[..., :-1].copy()
    for at in range(x.shape[-1] - 1):
        made[..., 2 * at + 1] = wide[..., at : at + 4] @ between
    return made


def scattered_where(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    made = x.copy()
    made[mask] = source[: mask.sum()]
    return made


def columns(x: np.ndarray, size: Sequence[int]) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, (2, 3))
    batch, channels = windows.shape[:2]
    return windows.transpose(0, 1, 4, 5, 2, 3).reshape(batch, channels * math.prod(size), -1)


BACK: list[tuple[str, Sequence[Any], Mapping[str, Any], Any, Sequence[int]]] = [
    ("Functional.silu", [SMALL], {}, lambda x: x / (1 + np.exp(-x)), [0]),
    ("Functional.gelu", [SMALL], {}, gelu, [0]),
    ("Functional.softmax", [SMALL], {"dim": -1}, softmax, [0]),
    ("Tensor.contiguous", [SMALL], {}, lambda x: x, [0]),
    ("Functional.embedding", [NAMES, real(6, 4), 3], {},
     lambda names, w, padding: np.where((names == padding)[:, None], 1.0, w[names]), [1]),
    ("Tensor.pow", [SMALL, 3], {}, lambda x, n: x**n, [0]),
    ("Torch.rsqrt", [np.abs(SMALL) + 1], {}, lambda x: 1 / np.sqrt(x), [0]),
    ("Tensor.__mul__", [SMALL, OTHER[0, 0]], {}, lambda a, b: a * b, [0, 1]),
    ("Torch._grouped_mm", [real(7, 4), real(3, 4, 5)], {"offs": ENDS}, by_expert, [0, 1]),
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
    ("Torch.acosh", [np.abs(X) + 1.5], {}, np.arccosh, [0]),
    ("Torch.logaddexp", [SMALL, OTHER], {}, np.logaddexp, [0, 1]),
    ("Functional.softshrink", [X], {}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), [0]),
    ("Tensor.diagonal", [SMALL, 1, 1, 2], {}, np.diagonal, [0]),
    ("Functional.interpolate", [real(1, 1, 4, 4)],
     {"size": [4, 7], "mode": "bicubic", "align_corners": True}, half_steps, [0]),
    ("Functional.kl_div", [OTHER[1], SHARES], {"reduction": "sum"},
     lambda x, y: (y * (np.log(y) - x)).sum(), [0]),
]  # fmt: skip


def logits_loss(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shares = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return -shares[np.arange(len(y)), y].mean()


OWN: list[tuple[str, Sequence[Any], Mapping[str, Any], Any, Sequence[int]]] = [
    ("Functional.linear", [SMALL, real(5, 4), real(5)], {}, lambda x, w, b: x @ w.T + b, [0, 1, 2]),
    ("Tensor.matmul", [real(2, 1, 3, 4), real(3, 4, 2)], {}, np.matmul, [0, 1]),
    ("Functional.cross_entropy", [SCORES, NAMES], {}, logits_loss, [0]),
    ("Torch.einsum", ["bij,bjk->bk", SMALL, real(2, 4, 5)], {}, np.einsum, [1, 2]),
    ("Functional.conv_transpose1d", [real(2, 4, 5), real(4, 1, 4), None, 2, 1, 0, 2], {},
     lambda x, w, *_: np.concatenate([spread_out(x[:, :2], w[:2]), spread_out(x[:, 2:], w[2:])],
                                     1)[..., 1:-1], [0, 1]),
    ("Functional.normalize", [SMALL], {},
     lambda x: x / np.linalg.norm(x, axis=1, keepdims=True), [0]),
    ("Functional.cosine_similarity", [OTHER[1], OTHER[0]], {},
     lambda x, y: (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1), [0, 1]),
    ("Torch.cdist", [SMALL, real(2, 5, 4)], {},
     lambda x, y: np.linalg.norm(x[:, :, None] - y[:, None], axis=-1), [0, 1]),
    ("Torch.cross", [real(2, 3), real(2, 3)], {}, np.cross, [0, 1]),
    ("Torch.tensordot", [SMALL, real(3, 4, 5)], {}, np.tensordot, [0, 1]),
    ("Tensor.masked_scatter", [TRUE, TRUE > 0, real(12)], {}, scattered_where, [0, 2]),
    ("Functional.unfold", [real(1, 2, 4, 5), [2, 3]], {}, columns, [0]),
    ("Functional.conv2d", [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3)], {"padding": "same"},
     lambda x, w, b: convolved(x, w, b.reshape(1, 3), 1, 1), [0, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("api", "args", "options", "function", "by", "is_own"),
    [*((*case, False) for case in BACK), *((*case, True) for case in OWN)],
    ids=[case[0] for case in (*BACK, *OWN)],
)
def test_a_way_back_gives_the_gradient_of_its_way_there(
    api, args, options, function, by, is_own, tmp_path
):
    made = np.asarray(function(*args), np.float32)
    gradient = real(*made.shape)
    right = {at: slope(function, args, at, gradient).astype(np.float32) for at in by}
    recorded = [leaf(each) for each in right.values()]
    calls = {
        f"{api}.0.forward": {
            "input_args": [leaf(each) for each in args],
            "input_kwargs": {key: leaf(each) for key, each in options.items()},
            "output": [leaf(made)],
        },
        f"{api}.0.backward": {
            "input": [leaf(gradient)],
            "output": dict(zip((f"by_{at}" for at in by), recorded, strict=True))
            if is_own
            else recorded,
        },
    }
    values = {**arrays(args, options), "grad.0": gradient, "made.0": made}
    outputs = run_again(tmp_path, calls, values, f"{api}.0.backward")
    for own, wanted in zip(outputs, right.values(), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=2e-3, atol=2e-4)
