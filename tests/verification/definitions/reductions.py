"""Products of matrices, sums along axes, softmax and losses."""

from __future__ import annotations

import numpy as np

LONG = np.int32


def softmax(x, axis=-1):
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def products(add, draw):
    a, b, c = draw(7, 33), draw(33, 18), draw(18)
    plain = {"transpose_x1": False, "transpose_x2": False}
    add("matmul", "MatMulV2", [a, b, c], [a @ b + c], **plain)
    add("matmul_t", "MatMulV2", [a.T, b.T], [a @ b], transpose_x1=True, transpose_x2=True)
    add("matmul_untold", "MatMul", [a, b.T], [a @ b])
    p, q = draw(2, 3, 5, 8), draw(2, 3, 4, 8)
    for op in ("BatchMatMul", "BatchMatMulV2"):
        add(op, op, [p, q], [p @ q.transpose(0, 1, 3, 2)], adj_x1=False, adj_x2=True)
    x, w, d = draw(2, 6, 3, 3), draw(10, 6, 3, 3), draw(10)
    full = (x.reshape(2, -1) @ w.reshape(10, -1).T + d).reshape(2, 10, 1, 1)
    said = {"num_output": 10, "transpose": False, "axis": 1}
    add("full", "FullyConnection", [x, w, d], [full], ("NCHW", "NCHW", "", "NCHW"), **said)


_KINDS = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod}


def sums(add, draw):
    x = draw(4, 6, 5)
    for kind, formula in _KINDS.items():
        value = draw.positive(4, 6, 5)
        kept = formula(value, (0, 2), keepdims=True)
        axes = np.array([0, -1], LONG)
        add(f"{kind}_d", f"Reduce{kind}D", [value], [formula(value, 1)], axes=(1,))
        add(kind, f"Reduce{kind}", [value, axes], [kept], keep_dims=True)
        whole = formula(value[0])
        add(f"{kind}_all", f"Reduce{kind}D", [value[0]], [np.asarray(whole)], axes=(0, 1))
        none = np.array([], LONG)
        add(f"{kind}_none", f"Reduce{kind}", [value, none], [value], keep_dims=False)
    flags = x > 0
    for op, formula in (("ReduceAll", np.all), ("ReduceAny", np.any)):
        add(op, op, [flags, np.array([1], LONG)], [formula(flags, 1)], keep_dims=False)
        add(
            f"{op}D",
            f"{op}D",
            [flags],
            [formula(flags, 2, keepdims=True)],
            axes=(2,),
            keep_dims=True,
        )
    for op, formula in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        add(f"{op}D", f"{op}D", [x], [formula(x, 1).astype(LONG)], dimension=1)
        add(op, op, [x, np.array(-1, LONG)], [formula(x, -1).astype(np.int64)])
    add("arg_max_2", "ArgMaxV2", [x, np.array([0], LONG)], [x.argmax(0).astype(LONG)])
    y = draw(30)
    add("squares", "SquareSumV1", [x], [(x**2).sum((0, 2))], axis=(0, 2), keep_dims=False)
    add("squares_all", "SquareSumAll", [x, y], [np.array((x**2).sum()), np.array((y**2).sum())])
    add(
        "norm", "LpNorm", [x], [np.sqrt((x**2).sum(1, keepdims=True))], p=2, axes=(1,), keepdim=True
    )
    add("norm_1", "LpNorm", [x], [np.array(np.abs(x).sum())], p=1, axes=(), keepdim=False)
    add("bias_grad", "BiasAddGrad", [x], [x.sum((0, 1))])
    four = draw(2, 6, 4, 5)
    add("bias_grad_nchw", "BiasAddGrad", [four], [four.sum((0, 2, 3))], ("NCHW",))


def shares(add, draw):
    x, y = draw(4, 19), draw(4, 19)
    made = draw.held(softmax(x))
    add("softmax", "SoftmaxV2", [x], [softmax(x)], axes=(-1,))
    add("softmax_1", "Softmax", [x], [softmax(x, 0)], axis=0)
    add("softmax_axes", "SoftmaxV2", [x], [softmax(x, (0, 1))], axes=(0, 1))
    add("log_softmax", "LogSoftmaxV2", [x], [np.log(softmax(x))], axes=(-1,))
    add("log_softmax_axes", "LogSoftmaxV2", [x], [np.log(softmax(x, (0, 1)))], axes=(0, 1))
    back = (y - (made * y).sum(-1, keepdims=True)) * made
    add("softmax_grad", "SoftmaxGrad", [made, y], [back])
    logs = draw.held(np.log(softmax(x)))
    back = y - np.exp(logs) * y.sum(-1, keepdims=True)
    add("log_softmax_grad", "LogSoftmaxGrad", [y, logs], [back], axis=(-1,))


def losses(add, draw):
    x = draw(4, 19)
    labels = np.array([3, 0, 18, 7], LONG)
    found = -np.log(softmax(x))[np.arange(4), labels]
    back = softmax(x) - np.eye(19)[labels]
    add("sparse", "SparseSoftmaxCrossEntropyWithLogits", [x, labels], [found, back])
    shared = draw.held(softmax(draw(4, 19)))
    found = -(shared * np.log(softmax(x))).sum(-1)
    add("dense", "SoftmaxCrossEntropyWithLogits", [x, shared], [found, softmax(x) - shared])


PARTS = (products, sums, shares, losses)
