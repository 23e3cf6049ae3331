"""Makes rows.npz: ``pip install tensorflow``, then ``python -m tests.data.tensorflow.make_rows`` in
the root of the project. Its cases are those of ``tests/made/tensorflow_ops`` and a few more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from divergraph.execute.translate.tensorflow.rows import ROWS
from tests.made.tensorflow_ops import BUILDS
from tests.made.tensorflow_ops.drawing import Array, Draw, numbers
from tests.made.tensorflow_ops.running import MadeOps, made_by_tensorflow
from tests.made.tensorflow_ops.stored import StoredRows, store

_MOST_NUMBERS = 400
_EXAMPLES = 6
_KEPT = 2
v1 = tf.compat.v1


def _drawn(ops: Any, _: Draw, feed: Callable[..., Any]) -> None:
    """Every way to make ops, with what is drawn for it."""
    for build in BUILDS:
        _with_draws(partial(build, ops, feed=feed))


def _with_draws(build: Callable[..., Any]) -> None:
    @settings(
        max_examples=_EXAMPLES,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def put(data: st.DataObject) -> None:
        build(draw=data.draw)

    put()


def _others(ops: Any, _: Draw, feed: Callable[..., Any]) -> None:
    """Ops that nothing is drawn for, and ties that seldom are."""
    tied = [feed(np.array([[0, 6, 7]], "f4")), feed(np.array([[0, 5, 8]], "f4"))]
    for kind in ("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"):
        getattr(ops, kind)(x=tied[0], y=tied[1])
    ops.Relu6Grad(gradients=tied[1], features=tied[0])
    small = feed(np.linspace(-0.9, 0.9, 6, dtype="f4").reshape(2, 3))
    x, y = feed(numbers((2, 3), 1)), feed(numbers((2, 3), 2, positive=True))
    for kind in ("Acos", "Asin", "Atanh"):
        getattr(ops, kind)(x=small)
    ops.AccumulateNV2(inputs=[x, y], shape=[2, 3])
    ops.Xlogy(x=x, y=y)
    ops.BatchMatMul(x=x, y=y, adj_y=True)
    ops.BatchMatMulV3(x=x, y=y, Tout=tf.float32, adj_x=True)
    ops.BiasAddV1(value=x, bias=feed(numbers((3,), 3)))
    whole = [feed(numbers((2, 3), seed, "i4")) for seed in (4, 5)]
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        getattr(ops, kind)(x=whole[0], y=whole[1])
    ops.Invert(x=whole[0])
    ops.CheckNumerics(tensor=x, message="odd")
    ops.DebugGradientIdentity(input=x)
    ops.EnsureShape(input=x, shape=[2, 3])
    ops.CheckNumericsV2(tensor=x, message="odd")
    ops.GuaranteeConst(input=x)
    ops.DeepCopy(x=x)
    ops.ScatterNdNonAliasingAdd(input=x, indices=np.array([[1, 0]], "i4"), updates=np.ones(1, "f4"))
    ops.IdentityN(input=[x, whole[0]])
    ops.PlaceholderWithDefault(input=x, shape=[2, 3])
    ops.DataFormatVecPermute(x=np.array([1, 2, 3, 4], "i4"), src_format="NHWC", dst_format="NCHW")
    places = feed(np.array([[0], [1]], "i4"))
    for how in ("Update", "Add", "Sub", "Max", "Min"):
        kind = f"TensorScatter{how}"
        getattr(ops, kind)(tensor=x, indices=places, updates=y)
    for kind in ("UniqueV2", "UniqueWithCountsV2"):
        getattr(ops, kind)(x=feed(numbers((7,), 6, "i4")), axis=np.array([0], "i4"))
    pieces = [np.array([0, 3], "i4"), np.array([2, 1], "i4")]
    ops.ParallelDynamicStitch(indices=pieces, data=[x, y])
    _images(ops, feed)


def _images(ops: Any, feed: Callable[..., Any]) -> None:
    image = feed(numbers((1, 3, 4, 3, 2), 1))
    said = {"strides": [1, 2, 1, 2, 1], "padding": "SAME"}
    ops.Conv3D(input=image, filter=feed(numbers((2, 2, 2, 2, 2), 2)), **said)
    ops.MaxPool3D(input=image, ksize=[1, 2, 2, 2, 1], **said)
    ops.AvgPool3D(input=image, ksize=[1, 2, 2, 2, 1], **said)
    flat, scale = feed(numbers((2, 3, 3, 2), 3)), feed(numbers((2,), 4))
    mean, variance = feed(numbers((2,), 5)), feed(numbers((2,), 6, positive=True))
    empty = np.zeros(0, "f4")
    for kind in ("FusedBatchNorm", "FusedBatchNormV2"):
        getattr(ops, kind)(x=flat, scale=scale, offset=mean, mean=empty, variance=empty)
    for kind in ("FusedBatchNormGrad", "FusedBatchNormGradV2"):
        getattr(ops, kind)(
            y_backprop=feed(numbers((2, 3, 3, 2), 7)),
            x=flat,
            scale=scale,
            reserve_space_1=mean,
            reserve_space_2=variance,
        )
    boxes = feed(np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 2, 1, 3]], "f4"))
    ops.NonMaxSuppression(
        boxes=boxes, scores=feed(np.array([0.5, 0.9, 0.7], "f4")), max_output_size=np.int32(3)
    )


def _changing() -> Iterator[tuple[str, list[Array], dict[str, Any]]]:
    """Ops that change variables of the old kind: type, variables, the other inputs."""
    shape = (2, 3)
    x, g = numbers(shape, 1), numbers(shape, 2)
    a, b, c = (numbers(shape, seed, positive=True) for seed in (3, 4, 5))
    f = np.float32
    yield from ((kind, [x], {"value": g}) for kind in ("Assign", "AssignAdd", "AssignSub"))
    yield "ApplyGradientDescent", [x], {"alpha": f(0.1), "delta": g}
    for nesterov in (False, True):
        said = {"lr": f(0.1), "grad": g, "momentum": f(0.9), "use_nesterov": nesterov}
        yield "ApplyMomentum", [x, a], said
        decays = {"beta1_power": f(0.8), "beta2_power": f(0.9), "beta1": f(0.9), "beta2": f(0.99)}
        rest = {"lr": f(0.1), "epsilon": f(1e-7), "grad": g, "use_nesterov": nesterov}
        yield "ApplyAdam", [x, a, b], {**decays, **rest}
    yield "ApplyAdagrad", [x, a], {"lr": f(0.1), "grad": g}
    yield "ApplyAdagradV2", [x, a], {"lr": f(0.1), "epsilon": f(0.01), "grad": g}
    largest = {"beta1_power": f(0.8), "beta1": f(0.9), "beta2": f(0.99), "epsilon": f(1e-7)}
    yield "ApplyAdaMax", [x, a, b], {**largest, "lr": f(0.1), "grad": g}
    by_sign = {"lr": f(0.1), "sign_decay": f(0.9), "beta": f(0.8), "grad": g}
    yield "ApplyAddSign", [x, g / 2], {**by_sign, "alpha": f(1.5)}
    yield "ApplyPowerSign", [x, g / 2], {**by_sign, "logbase": f(1.2)}
    shrinking = {"l1": f(0.05), "l2": f(0.2)}
    yield "ApplyProximalGradientDescent", [x], {"alpha": f(0.1), **shrinking, "delta": g}
    yield "ApplyProximalAdagrad", [x, a], {"lr": f(0.1), **shrinking, "grad": g}
    followed = {"grad": g, "lr": f(0.1), **shrinking, "lr_power": f(-0.5)}
    yield "ApplyFtrl", [x, a, g / 3], followed
    yield "ApplyFtrlV2", [x, a, g / 3], {**followed, "l2_shrinkage": f(0.1)}
    rows = np.array([1], "i4")
    few = {"grad": g[:1], "indices": rows}
    yield "SparseApplyAdagrad", [x, a], {"lr": f(0.1), **few}
    yield "SparseApplyAdagradV2", [x, a], {"lr": f(0.1), "epsilon": f(0.01), **few}
    yield "SparseApplyMomentum", [x, a], {"lr": f(0.1), "momentum": f(0.9), **few}
    slow = {"lr": f(0.1), "rho": f(0.9), "epsilon": f(1e-6), **few}
    yield "SparseApplyRMSProp", [x, a, b], {**slow, "momentum": f(0.8)}
    yield "SparseApplyCenteredRMSProp", [x, g / 8, a + 1, c], {**slow, "momentum": f(0.8)}
    yield "SparseApplyFtrl", [x, a, g / 3], {**followed, **few}
    yield "SparseApplyFtrlV2", [x, a, g / 3], {**followed, **few, "l2_shrinkage": f(0.1)}
    yield "SparseApplyProximalAdagrad", [x, a], {"lr": f(0.1), **shrinking, **few}
    yield "SparseApplyProximalGradientDescent", [x], {"alpha": f(0.1), **shrinking, **few}
    yield "SparseApplyAdadelta", [x, a, b], slow
    small = {"lr": f(0.1), "rho": f(0.9), "epsilon": f(1e-6), "grad": g}
    yield "ApplyAdadelta", [x, a, b], small
    yield "ApplyRMSProp", [x, a, b], {**small, "momentum": f(0.8)}
    yield "ApplyCenteredRMSProp", [x, g / 8, a + 1, c], {**small, "momentum": f(0.8)}
    for how in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
        yield f"Scatter{how}", [x], {"indices": np.array([1, 0], "i4"), "updates": a}
    at = np.array([[1, 0], [0, 2]], "i4")
    for how in ("Add", "Sub", "Min", "Max", "Update"):
        yield f"ScatterNd{how}", [x], {"indices": at, "updates": a[0, :2]}
    cut = {"begin": np.array([0, 1], "i4"), "end": np.array([2, 3], "i4")}
    steps = np.array([1, 1], "i4")
    yield "StridedSliceAssign", [x], {**cut, "strides": steps, "value": a[:, :2]}


_STATES = {
    "ApplyAdagradV2": ("accum",),
    "ApplyAdaMax": ("m", "v"),
    "ApplyAddSign": ("m",),
    "ApplyPowerSign": ("m",),
    "ApplyProximalAdagrad": ("accum",),
    "ApplyFtrl": ("accum", "linear"),
    "ApplyFtrlV2": ("accum", "linear"),
    "ApplyMomentum": ("accum",),
    "ApplyAdam": ("m", "v"),
    "ApplyAdagrad": ("accum",),
    "ApplyAdadelta": ("accum", "accum_update"),
    "ApplyRMSProp": ("ms", "mom"),
    "ApplyCenteredRMSProp": ("mg", "ms", "mom"),
}


def _changed(kind: str, variables: list[Array], given_: dict[str, Any]) -> MadeOps:
    """An op that changes *variables*, run once."""
    first = "ref" if kind.startswith(("Assign", "Scatter", "Strided")) else "var"
    names = (first, *_STATES.get(kind.removeprefix("Sparse"), ()))
    graph = tf.Graph()
    with graph.as_default(), v1.Session() as session:
        held = [tf.raw_ops.VariableV2(shape=each.shape, dtype=tf.float32) for each in variables]
        for ref, value in zip(held, variables, strict=True):
            session.run(tf.raw_ops.Assign(ref=ref, value=value))
        out = getattr(tf.raw_ops, kind)(**dict(zip(names, held, strict=True)), **given_)
        after = session.run(out)
    before = {ref.name: value for ref, value in zip(held, variables, strict=True)}
    return MadeOps(graph, before, {out.name: after})


class _Model:
    """A graph of single ops, with what each is given and gives."""

    def __init__(self) -> None:
        self.graph = v1.GraphDef()
        self.feeds: dict[str, Array] = {}
        self.values: dict[str, Array] = {}

    def add(self, name: str, op: Any, known: dict[str, Array]) -> None:
        """*op* by itself under another name: constants stay constants, the rest is fed."""
        made = v1.NodeDef()
        made.CopyFrom(op.node_def)
        del made.input[:]
        made.name = name
        made.attr.pop("_class", None)
        for at, tensor in enumerate(op.inputs):
            source = self.graph.node.add()
            if tensor.op.type == "Const":
                source.CopyFrom(tensor.op.node_def)
            else:
                source.op = "Placeholder"
                source.attr["dtype"].type = tensor.dtype.base_dtype.as_datatype_enum
                source.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())
                self.feeds[f"{name}_{at}:0"] = known[tensor.name]
            source.name = f"{name}_{at}"
            made.input.append(source.name)
        self.graph.node.append(made)
        for port, tensor in enumerate(op.outputs):
            if tensor.name in known and _is_filled(op, port):
                self.values[f"{name}:{port}"] = known[tensor.name]


def _is_filled(op: Any, port: int) -> bool:
    """Batch normalisation has room for the kernels of other devices, which this one leaves."""
    if not op.type.startswith("FusedBatchNorm"):
        return True
    training = "Grad" not in op.type and op.get_attr("is_training")
    return port < (5 if training else 3)


def _size(op: Any, known: dict[str, Array]) -> int:
    tensors = (*op.inputs, *op.outputs)
    return sum(known[each.name].size for each in tensors if each.name in known)


def _in_order(ops: list[Any], known: dict[str, Array]) -> list[Any]:
    """Those with ties at zero and of many numbers first; those that repeat attributes last."""
    sizes = {op.name: _size(op, known) for op in ops}
    zeros = {
        op.name: any(not known[t.name].all() for t in op.inputs if t.name in known) for op in ops
    }
    fitting = [op for op in ops if sizes[op.name] <= _MOST_NUMBERS]
    fitting.sort(key=lambda op: (zeros[op.name], sizes[op.name]), reverse=True)
    seen: dict[str, int] = {}
    ranks = {}
    for op in fitting:
        attrs = op.type + str(sorted((name, str(said)) for name, said in op.node_def.attr.items()))
        ranks[op.name] = seen[attrs] = seen.get(attrs, 0) + 1
    return sorted(fitting, key=lambda op: ranks[op.name])


def main() -> None:
    model, kept = _Model(), dict.fromkeys(ROWS, 0)
    runs = [made_by_tensorflow(build, lambda _: None) for build in (_others, _drawn)]
    runs += [_changed(*each) for each in _changing()]
    for run in runs:
        known = {**run.feeds, **run.values}
        ops = [op for op in run.ops if op.type in kept and any(t.name in known for t in op.outputs)]
        for op in _in_order(ops, known):
            if kept[op.type] < _KEPT:
                model.add(f"{op.type}_{kept[op.type]}", op, known)
                kept[op.type] += 1
    store(StoredRows(model.graph.SerializeToString(deterministic=True), model.feeds, model.values))


if __name__ == "__main__":
    main()
