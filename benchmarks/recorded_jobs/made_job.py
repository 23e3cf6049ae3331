"""A training step of a small transformer, recorded as msprobe records one: numpy in place of torch.

Ranks run in step, so that collective calls have all inputs. A job may be split (``tensor``,
``data``, ``pipeline``), rounds in float32, float16 or bfloat16, and may have one :class:`Fault`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Ranks: TypeAlias = dict[int, Array]
"""A tensor as each rank has it."""

WIDTH, HEADS, WORDS, LENGTH, BATCH, HIDDEN, BLOCKS = 32, 4, 48, 8, 4, 64, 3
LAYOUTS = ("single", "tensor", "data", "pipeline", "wrapped")
"""``wrapped`` is ``data`` with reductions that are not recorded."""
MODES = ("tensor", "statistics", "md5")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong. ``site`` is part of the names of the calls that may be blamed, ``rank`` is
    where the fault is (None: everywhere), ``layout`` that of the job it is in."""

    name: str
    site: str
    rank: int | None = None
    layout: str = "tensor"


FAULTS = {
    each.name: each
    for each in (
        Fault("kernel_zeroes_a_channel", "blocks.1.up"),
        Fault("kernel_scales", "blocks.1.v."),
        Fault("kernel_other_gelu", "gelu.1"),
        Fault("kernel_softmax_of_another_axis", "softmax.1"),
        Fault("kernel_transposes", "blocks.1.o."),
        Fault("argument_epsilon", "layer_norm.2"),
        Fault("argument_scale", "__truediv__.1"),
        Fault("argument_fill", "masked_fill.1"),
        Fault("weight_stale", "blocks.1.down"),
        Fault("weight_of_a_norm", "blocks.2.n1"),
        Fault("weight_transposed", "blocks.1.o"),
        Fault("weight_of_another_layer", "blocks.2.q"),
        Fault("weight_without_a_row", "blocks.1.up"),
        Fault("weight_negated", "blocks.1.v"),
        Fault("call_missing", "blocks.1."),
        Fault("call_extra", "blocks.1."),
        Fault("gradient_doubled", "head"),
        Fault("data_other", ""),
    )
}
RANK_FAULTS = {
    each.name: each
    for each in (
        Fault("kernel_on_one_rank", "blocks.1.q.", 1),
        Fault("all_reduce_means", "all_reduce"),
        Fault("all_reduce_missing", "blocks.1"),
    )
}
DATA_FAULTS = {
    each.name: each
    for each in (
        Fault("gradients_added_up", "ranks0-1/Distributed.all_reduce.0"),
        Fault("data_repeated", ""),
    )
}
"""Those of jobs split by data alone."""
JOB_FAULTS = RANK_FAULTS | {
    each.name: each
    for each in (
        Fault("largest_for_sum", "blocks.1.down.Linear.forward.0/Distributed.all_reduce"),
        Fault("own_for_sum", "blocks.1.down.Linear.forward.0/Distributed.all_reduce", 1),
        Fault("chunk_lost", "blocks.1.down.Linear.forward.0/Distributed.all_reduce", 1),
        Fault("sum_before", "blocks.1.down.Linear.forward.0/Distributed.all_reduce", 1),
        Fault("weight_on_one_rank", "blocks.1.down", 1),
        Fault("kernel_of_a_copy", "blocks.1.q.", 1, "data"),
        Fault("weight_of_a_copy", "blocks.1.down", 1, "data"),
        Fault("mean_missing", "update", None, "data"),
        Fault("gradient_not_reduced", "update", None, "data"),
        Fault("gradient_scaled", "Distributed.all_reduce", 1, "data"),
        Fault("hidden_sum", "head.weight.all_reduce", None, "wrapped"),
        Fault("hidden_left_out", "head.weight.all_reduce", None, "wrapped"),
        Fault("hidden_dropped", "update", None, "wrapped"),
        Fault("message_cut", "Distributed.send", 1, "pipeline"),
        Fault("kernel_of_a_stage", "blocks.1.q.", None, "pipeline"),
    )
}


@dataclass
class Recorder:
    """One rank's dump in the making."""

    mode: str
    dtype: str
    calls: dict[str, Any] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    stacks: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, Array] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)
    inside: list[str] = field(default_factory=list)

    def leaf(self, name: str, value: Array) -> dict[str, Any]:
        """A tensor as the entry of a call has it."""
        kind = value.dtype.name if value.dtype.kind in "iub" else self.dtype
        told: dict[str, Any] = {
            "type": "torch.Tensor",
            "dtype": f"torch.{kind}",
            "shape": list(value.shape),
        }
        numbers = value.astype(np.float64)
        with np.errstate(invalid="ignore"):
            told |= {
                "Max": float(numbers.max()),
                "Min": float(numbers.min()),
                "Mean": float(np.float32(numbers.mean())),
                "Norm": float(np.float32(np.sqrt(np.square(numbers).sum()))),
            }
        if self.mode == "md5":
            told["md5"] = hashlib.md5(value.tobytes(), usedforsecurity=False).hexdigest()[:8]
        if self.mode == "tensor":
            self.files[f"{name}.npy"] = value
            told["data_name"] = f"{name}.npy"
        return told

    def add(
        self,
        name: str,
        inputs: Sequence[Any],
        options: Mapping[str, Any],
        outputs: Sequence[Array],
        parameters: Mapping[str, Array],
        frame: str,
    ) -> None:
        """Record a call."""

        def said(place: str, value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return self.leaf(f"{name}.{place}", value)
            if isinstance(value, tuple):
                return {"type": "torch.ProcessGroup", "group_ranks": list(value)}
            return None if value is None else {"type": type(value).__name__, "value": value}

        self.calls[name] = {
            "input_args": [said(f"input.{at}", value) for at, value in enumerate(inputs)],
            "input_kwargs": {key: said(f"input.{key}", value) for key, value in options.items()},
            "output": [said(f"output.{at}", value) for at, value in enumerate(outputs)],
        }
        if parameters:
            told = {key: self.leaf(f"{name}.parameters.{key}", v) for key, v in parameters.items()}
            self.calls[name]["parameters"] = told
        self.parents[name] = self.inside[-1] if self.inside else None
        self.stacks[name] = [f"File job.py, line {frame}, in forward"]

    def write(self, folder: Path) -> None:
        """Write the dump."""
        folder.mkdir(parents=True)
        task = "tensor" if self.mode == "tensor" else "statistics"
        content = {"task": task, "level": "mix", "framework": "pytorch", "data": self.calls}
        (folder / "dump.json").write_text(json.dumps(content))
        (folder / "construct.json").write_text(json.dumps(self.parents))
        (folder / "stack.json").write_text(json.dumps(self.stacks))
        if self.files:
            (folder / "dump_tensor_data").mkdir()
            for name, value in self.files.items():
                np.save(folder / "dump_tensor_data" / name, value)


class Job:
    """A step of a job of *layout*; :meth:`run` records it. *fused*: a block has its queries, keys
    and values of one layer. *has_means*: it takes means over its words, as auxiliary losses do."""

    def __init__(
        self,
        *,
        seed: int = 1,
        dtype: str = "float32",
        mode: str = "tensor",
        layout: str = "single",
        fault: str = "",
        ranks: int = 2,
        blocks: int = BLOCKS,
        fused: bool = False,
        has_means: bool = False,
    ) -> None:
        self.is_wrapped = layout == "wrapped"
        self.layout = "data" if self.is_wrapped else layout
        self.dtype, self.blocks, self.fused = dtype, blocks, fused
        self.has_means = has_means
        self.fault = {**FAULTS, **JOB_FAULTS, **DATA_FAULTS}.get(fault)
        self.sums: Ranks = {}
        self.number = 1 if layout == "single" else ranks
        self.recorders = [Recorder(mode, dtype) for _ in range(self.number)]
        self.active = list(range(self.number))
        self.rng = np.random.default_rng(seed)
        self.weights = self._weights()
        self.words = self.rng.integers(0, WORDS, (BATCH, LENGTH + 1))
        if self._has("data_other"):
            self.words = np.random.default_rng(seed + 1000).integers(0, WORDS, self.words.shape)

    def run(self, folder: Path) -> Path:
        """Record the step into *folder*, which is given back."""
        self._step()
        for rank, recorder in enumerate(self.recorders):
            recorder.write(folder / "step0" / ("proc7" if self.number == 1 else f"rank{rank}"))
        return folder

    # values

    def _has(self, name: str, rank: int | None = None) -> bool:
        fault = self.fault
        return fault is not None and fault.name == name and fault.rank in (None, rank)

    def round(self, value: Array) -> Array:
        """*value* in the job's type, held in float32 where numpy has none."""
        if value.dtype.kind != "f":
            return value
        value = value.astype(np.float32)
        if self.dtype == "float16":
            return value.astype(np.float16)
        if self.dtype == "bfloat16":
            bits = value.view(np.uint32)
            kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
            return np.where(np.isfinite(value), kept.astype(np.uint32).view(np.float32), value)
        return value

    def _weights(self) -> dict[str, Array]:
        """The whole model's weights, as every layout starts with."""
        draw = self.rng.standard_normal
        found = {"emb": draw((WORDS, WIDTH)) * 0.5, "head": draw((WORDS, WIDTH)) * 0.15}
        shapes = {
            "q": (WIDTH, WIDTH),
            "k": (WIDTH, WIDTH),
            "v": (WIDTH, WIDTH),
            "o": (WIDTH, WIDTH),
        }
        shapes |= {"up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
        for block in range(self.blocks):
            for name, shape in shapes.items():
                found[f"blocks.{block}.{name}"] = draw(shape) * 0.15
            for name in ("n1", "n2"):
                found[f"blocks.{block}.{name}"] = 1 + 0.1 * draw(WIDTH)
        if self._has("weight_stale"):
            stale = np.random.default_rng(7).standard_normal((WIDTH, HIDDEN))
            found["blocks.1.down"] = found["blocks.1.down"] + stale * 0.06
        if self._has("weight_of_a_norm"):
            found["blocks.2.n1"] = found["blocks.2.n1"] * 1.4
        if self._has("weight_transposed"):
            found["blocks.1.o"] = found["blocks.1.o"].T
        if self._has("weight_of_another_layer"):
            found["blocks.2.q"] = found["blocks.1.q"]
        if self._has("weight_without_a_row"):
            found["blocks.1.up"][3] = 0.0
        if self._has("weight_negated"):
            found["blocks.1.v"] = -found["blocks.1.v"]
        return {name: self.round(value) for name, value in found.items()}

    # recording

    @contextmanager
    def module(
        self, path: str, kind: str, taken: Ranks, parameters: Mapping[str, Ranks] | None = None
    ) -> Iterator[dict[str, Ranks]]:
        """A module's call around what is recorded inside; put its output under ``output``."""
        name = f"Module.{path}.{kind}.forward.0"
        for rank in self.active:
            self.recorders[rank].inside.append(name)
        held: dict[str, Ranks] = {}
        yield held
        for rank in self.active:
            self.recorders[rank].inside.pop()
            own = {key: value[rank] for key, value in (parameters or {}).items()}
            output = held["output"][rank]
            self.recorders[rank].add(name, [taken[rank]], {}, [output], own, path)

    def call(
        self,
        kind: str,
        function: Callable[..., Array],
        *taken: Any,
        way: str = "forward",
        frame: str = "1",
        **options: Any,
    ) -> Ranks:
        """A recorded call of *function* of what is *taken*: tensors by rank, and numbers."""
        made: Ranks = {}
        for rank in self.active:
            recorder = self.recorders[rank]
            own = [value[rank] if isinstance(value, dict) else value for value in taken]
            name = f"{kind}.{recorder.count[kind]}.{way}"
            recorder.count[kind] += 1
            given = [v.astype(np.float32) if _is_real(v) else v for v in own]
            made[rank] = self.round(np.asarray(function(*given, **options)))
            made[rank] = self.round(self._spoilt(name, made[rank], given, frame, rank))
            recorder.add(name, own, options, [made[rank]], {}, frame)
        return made

    def _spoilt(self, name: str, made: Array, given: list[Any], frame: str, rank: int) -> Array:
        """What a bad kernel makes."""
        if self._has("kernel_zeroes_a_channel") and frame == "blocks.1.up":
            made = made.copy()
            made[..., 5] = 0
        copies = ("kernel_on_one_rank", "kernel_of_a_copy", "kernel_of_a_stage")
        if frame in ("blocks.1.q", "blocks.1.qkv") and any(
            self._has(each, rank) for each in copies
        ):
            made = made.copy()
            made[..., 3] = 0
        if frame == "blocks.1.down" and name.startswith("Distributed.all_reduce"):
            made = self._spoilt_sum(made, given, rank)
        if self._has("message_cut", rank) and name.startswith("Distributed.recv"):
            made = made.copy()
            made[..., -8:] = 0
        if self._has("kernel_scales") and frame == "blocks.1.v":
            made = made * np.float32(1.3)
        if self._has("kernel_transposes") and frame == "blocks.1.o":
            made = given[0] @ given[1]
        if self._has("kernel_other_gelu") and name.startswith("Functional.gelu.1."):
            made = np.maximum(given[0], 0)
        if self._has("kernel_softmax_of_another_axis") and name.startswith("Functional.softmax.1."):
            made = _softmax(np.where(np.isfinite(given[0]), given[0], -30), 2)
        return made

    def _spoilt_sum(self, made: Array, given: list[Any], rank: int) -> Array:
        """What a bad reduction makes on one rank."""
        if self._has("own_for_sum", rank):
            return given[0]  # type: ignore[no-any-return]
        if self._has("sum_before", rank):
            return self.sums[rank]
        if self._has("chunk_lost", rank):
            made = made.copy()
            part = slice(made.size // 2, made.size * 3 // 4)
            made.reshape(-1)[part] = given[0].reshape(-1)[part]
        return made

    # the step

    def _parts(self, name: str) -> Ranks:
        """A weight as each rank holds it."""
        parts = self._right_parts(name)
        if name == "blocks.1.down":
            for rank, value in parts.items():
                if self._has("weight_on_one_rank", rank) or self._has("weight_of_a_copy", rank):
                    noise = np.random.default_rng(3).standard_normal(value.shape) * 0.05
                    parts[rank] = self.round(value + noise)
        return parts

    def _right_parts(self, name: str) -> Ranks:
        path, _, kind = name.rpartition(".")
        if kind == "qkv":
            parts = [self._right_parts(f"{path}.{each}") for each in kind]
            return {rank: np.concatenate([part[rank] for part in parts]) for rank in parts[0]}
        value = self.weights[name]
        if self.layout == "tensor" and kind in ("q", "k", "v", "up"):
            return dict(enumerate(np.split(value, self.number, 0)))
        if self.layout == "tensor" and kind in ("o", "down"):
            return dict(enumerate(np.split(value, self.number, 1)))
        return dict.fromkeys(range(self.number), value)

    def _linear(self, path: str, x: Ranks, kind: str = "Linear") -> Ranks:
        weight = self._parts(path)
        with self.module(path, kind, x, {"weight": weight}) as held:
            made = self.call("Functional.linear", lambda a, w: a @ w.T, x, weight, frame=path)
            if self.layout == "tensor" and path.rpartition(".")[2] in ("o", "down"):
                made = self._all_reduce(made, path)
            held["output"] = made
        return made

    def _all_reduce(self, x: Ranks, path: str) -> Ranks:
        if self._has("all_reduce_missing") and path == "blocks.1.down":
            return x
        total = sum(value.astype(np.float32) for value in x.values())
        if self._has("largest_for_sum") and path == "blocks.1.down":
            total = np.max([value.astype(np.float32) for value in x.values()], 0)
        if self._has("all_reduce_means") and path == "blocks.1.down":
            total = total / len(x)
        group = tuple(range(self.number))
        self.sums = self.call(
            "Distributed.all_reduce", lambda *_, **__: total, x, frame=path, group=group
        )
        return self.sums

    def _hidden_mean(self, x: Ranks) -> Ranks:
        """What a wrapper around the model makes of gradients, below what is recorded."""
        if self._has("hidden_dropped"):
            return x
        given = [
            v.astype(np.float32) for r, v in x.items() if r or not self._has("hidden_left_out")
        ]
        mean = sum(given) / (1 if self._has("hidden_sum") else len(x))
        return dict.fromkeys(x, self.round(np.asarray(mean)))

    def _norm(self, path: str, x: Ranks, number: int) -> Ranks:
        weight = self._parts(path)
        eps = 0.3 if self._has("argument_epsilon") and number == 2 else 1e-5

        def norm(a: Array, _: list[int], w: Array, eps: float) -> Array:
            centred = a - a.mean(-1, keepdims=True)
            return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + eps) * w

        with self.module(path, "LayerNorm", x, {"weight": weight}) as held:
            shape = [WIDTH]
            made = self.call("Functional.layer_norm", norm, x, shape, weight, frame=path, eps=eps)
            held["output"] = made
        return made

    def _attention(self, block: int, x: Ranks) -> Ranks:
        heads = HEADS // (self.number if self.layout == "tensor" else 1)

        def split(a: Array) -> Array:
            return a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3)

        if self.fused:
            made = self._linear(f"blocks.{block}.qkv", x)
            thirds = {r: np.split(a, 3, -1) for r, a in made.items()}
            projected = [{r: each[at] for r, each in thirds.items()} for at in range(3)]
        else:
            projected = [self._linear(f"blocks.{block}.{name}", x) for name in "qkv"]
        q, k, v = ({r: split(a) for r, a in each.items()} for each in projected)
        frame = f"attention {block}"
        turned = {rank: value.transpose(0, 1, 3, 2) for rank, value in k.items()}
        scores = self.call("Torch.matmul", lambda a, b: a @ b, q, turned, frame=frame)
        size = float(WIDTH // HEADS)
        size = size if self._has("argument_scale") and block == 1 else size**0.5
        scores = self.call("Tensor.__truediv__", lambda a, b: a / b, scores, size, frame=frame)
        mask = np.triu(np.ones((LENGTH, LENGTH), np.bool_), 1)
        fill = 0.0 if self._has("argument_fill") and block == 1 else float("-inf")
        masks = dict.fromkeys(range(self.number), mask)
        scores = self.call(
            "Tensor.masked_fill",
            lambda a, m, f: np.where(m, f, a),
            scores,
            masks,
            fill,
            frame=frame,
        )
        shares = self.call("Functional.softmax", _softmax, scores, frame=frame, dim=-1)
        mixed = self.call("Torch.matmul", lambda a, b: a @ b, shares, v, frame=frame)
        joined = {
            r: a.transpose(0, 2, 1, 3).reshape(*a.shape[:1], LENGTH, -1) for r, a in mixed.items()
        }
        return self._linear(f"blocks.{block}.o", joined)

    def _block(self, block: int, x: Ranks) -> Ranks:
        path = f"blocks.{block}"
        with self.module(path, "Block", x) as held:
            made = self._attention(block, self._norm(f"{path}.n1", x, 2 * block))
            if self._has("call_extra") and block == 1:
                made = self.call("Tensor.__mul__", lambda a, b: a * b, made, 1.4, frame="extra")
            if not (self._has("call_missing") and block == 1):
                made = self.call("Tensor.__add__", lambda a, b: a + b, x, made, frame=path)
            inner = self._linear(f"{path}.up", self._norm(f"{path}.n2", made, 2 * block + 1))
            inner = self.call("Functional.gelu", _gelu, inner, frame=path)
            inner = self._linear(f"{path}.down", inner)
            made = self.call("Tensor.__add__", lambda a, b: a + b, made, inner, frame=path)
            held["output"] = made
        return made

    def _step(self) -> None:
        words = dict.fromkeys(range(self.number), self.words)
        if self.layout == "data":
            words = dict(enumerate(np.split(self.words, self.number)))
            if self._has("data_repeated"):
                words = dict.fromkeys(words, words[0])
        read = {rank: value[:, :-1] for rank, value in words.items()}
        stages = [list(range(self.blocks))]
        if self.layout == "pipeline":
            stages = [list(part) for part in np.array_split(range(self.blocks), self.number)]
            self.active = [0]
        weight = self._parts("emb")
        with self.module("emb", "Embedding", read, {"weight": weight}) as held:
            x = self.call("Functional.embedding", lambda i, w: w[i], read, weight, frame="emb")
            held["output"] = x
        for stage, blocks in enumerate(stages):
            if stage:
                x = self._sent(x, stage)
            for block in blocks:
                x = self._block(block, x)
        self._learn(x, {rank: value[:, 1:] for rank, value in words.items()})

    def _sent(self, x: Ranks, stage: int) -> Ranks:
        self.call("Distributed.send", lambda a, _: a, x, stage, frame="send")
        passed = x[stage - 1]
        self.active = [stage]
        return self.call("Distributed.recv", lambda *_: passed, None, stage - 1, frame="recv")

    def _learn(self, x: Ranks, wanted: Ranks) -> None:
        """The head with its loss, its gradients and an update of its weight."""
        weight = self._parts("head")
        with self.module("head", "Linear", x, {"weight": weight}) as held:
            scores = self.call("Functional.linear", lambda a, w: a @ w.T, x, weight, frame="head")
            held["output"] = scores
        flat = {rank: value.reshape(-1, WORDS) for rank, value in scores.items()}
        names = {rank: value.reshape(-1) for rank, value in wanted.items()}
        self.call("Functional.cross_entropy", _loss, flat, names, frame="loss")
        if self.has_means:
            usual = self.call(
                "Torch.mean", lambda a, dim: a.astype(np.float32).mean(dim), flat, 0, frame="means"
            )
            self.call("Tensor.mul", lambda a, b: a * b, usual, 0.5, frame="means")
        slope = {rank: self.round(_loss_slope(flat[rank], names[rank])) for rank in self.active}
        back, grads = {}, {}
        for rank in self.active:
            given = slope[rank].astype(np.float32)
            doubled = 2.0 if self._has("gradient_doubled") else 1.0
            back[rank] = self.round(given @ weight[rank].astype(np.float32) * doubled)
            read = x[rank].reshape(-1, WIDTH).astype(np.float32)
            grads[rank] = self.round(given.T @ read * doubled)
            self.recorders[rank].add(
                "Module.head.Linear.backward.0", [slope[rank]], {}, [back[rank]], {}, "head"
            )
            leaf = self.recorders[rank].leaf("Module.head.Linear.parameters_grad.0", grads[rank])
            self.recorders[rank].calls["Module.head.Linear.parameters_grad.0"] = {"weight": [leaf]}
        if self._has("gradient_scaled", 1):
            grads[1] = self.round(grads[1] * 2)
        if self.is_wrapped:
            grads = self._hidden_mean(grads)
        elif self.layout == "data" and not self._has("gradient_not_reduced"):
            grads = self._all_reduce(grads, "head")
            if not (self._has("mean_missing") or self._has("gradients_added_up")):
                count = self.number
                grads = self.call("Tensor.div_", lambda a, b: a / b, grads, count, frame="mean")
        self.call("Tensor.mul_", lambda a, b: a * b, weight, 0.999, frame="update")
        self.call(
            "Tensor.add_",
            lambda a, b, alpha: a + alpha * b,
            weight,
            grads,
            frame="update",
            alpha=-0.1,
        )


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _softmax(a: Array, dim: int) -> Array:
    shifted = np.exp(a - a.max(dim, keepdims=True))
    return shifted / shifted.sum(dim, keepdims=True)


def _gelu(a: Array) -> Array:
    return 0.5 * a * (1 + np.tanh(0.7978845608 * (a + 0.044715 * a**3)))


def _loss(scores: Array, wanted: Array) -> Array:
    shares = _softmax(scores, -1)
    return np.asarray(-np.log(shares[np.arange(len(wanted)), wanted]).mean())


def _loss_slope(scores: Array, wanted: Array) -> Array:
    slope = _softmax(scores.astype(np.float32), -1)
    slope[np.arange(len(wanted)), wanted] -= 1
    return slope / len(wanted)
