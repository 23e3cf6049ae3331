"""Blame in recorded runs, which run call by call only, not from their inputs to their outputs.

The squared error of a call's output is divided: one part is the call's own, the others came with
its inputs. How much came with each is measured by running golden's call with that one input as the
device read it. From the outputs back, each part is handed to the call that made the input, through
views, casts and sums of gradients nobody recorded as well. So shares are never negative and add up;
they assume that errors are independent, and that calls carry them on in proportion.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from divergraph.blame.attribution import Blame, KeepListEntry, Share, WhatIf
from divergraph.blame.outputs import blamed_outputs, stand_ins, tensor_names
from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.execute.translate.torch.alone import CallsAlone, calls_alone, input_name
from divergraph.jobs.progress import Progress
from divergraph.rootcause.core import split_run
from divergraph.rootcause.groups.group_reruns import OpVerdict
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.run_inputs import RunInputs, RunSources
from divergraph.rootcause.stored import sources_of
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import ModelGraph, Op, TensorIO, TensorRef
from importers.dumps.index import DumpIndex, TensorKey
from importers.msprobe.unrecorded import INSIDE, KEPT

_BETWEEN = 1e-3
"""A call whose output has a smaller share of the squared error of an input did not bring it: it
comes from what stands between, as where a call of golden's is missing."""
_ENOUGH = 5e-3
"""The list to keep ends where a call has less of the squared error, as with other models."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """A judged output: the squares of its error and of the part that is the call's own, the golden
    tensor, and golden's size."""

    golden: TensorRef
    error: float
    own: float
    size: float


@dataclass
class _ErrorSquares:
    """What the calls of a run add to the errors they read."""

    measured: dict[TensorRef, _Measured] = field(default_factory=dict)

    def see(self, judged: OpVerdict) -> None:
        """Keep the squares of one device output."""
        if judged.device.dtype.kind != "f":
            return
        group = judged.group
        golden = judged.golden.reshape(judged.device.shape)
        reference = judged.reference.reshape(judged.device.shape)
        self.measured[group.output] = _Measured(
            group.golden,
            _square(judged.device, golden),
            _square(judged.device, reference),
            _square(golden, np.zeros_like(golden)),
        )


def blame_calls(
    data: RunData,
    options: RootCauseOptions,
    asked: Sequence[str],
    exact: Sequence[str],
    keep: int,
    progress: Progress,
) -> Blame:
    """Shares of the calls in the squared error of the outputs of *data*, a recorded run, or of the
    golden tensors *asked* for; up to *keep* calls to keep exact, and what is left without the error
    of those in *exact*.

    Raises:
        InputError: a dump is gone, or no output was compared.
    """
    sources = sources_of(data, progress, options.memory)
    golden, device = calls_alone(data.golden), calls_alone(data.device)
    names = tensor_names(data.golden)
    wanted = blamed_outputs(data, asked, set(names.values()))
    parts = _ErrorSquares()
    with closing(open_executor(sources.golden_path, golden.graph)) as executor:
        inputs = RunInputs(data, sources, data.comparisons, lambda _: None)
        split_run(inputs, executor, options, progress, parts.see)
        came = _InputErrors(data, sources, golden, device, executor, options.memory)
        brought = came.by_output(parts.measured)
    ends = {
        ref: each
        for ref, each in parts.measured.items()
        if names.get(str(each.golden)) in wanted and each.size
    }
    if not ends:
        raise InputError(
            "no output of the recorded run was compared call by call",
            hint="name a tensor with --output: divergraph roles RUN lists what was run again",
        )
    return _blame(
        data,
        _HandedBack(data.device, parts.measured, brought, came.squares),
        ends,
        exact,
        keep,
        came.runs,
    )


class _InputErrors:
    """How much of a call's error came with each of its inputs."""

    def __init__(
        self,
        data: RunData,
        sources: RunSources,
        golden: CallsAlone,
        device: CallsAlone,
        executor: Executor,
        memory: int,
    ) -> None:
        self._twins = {link.device: link.original for link in data.links}
        self._golden, self._device = golden, device
        self._golden_ops = golden.graph.op_index()
        self._dumps = sources.golden_dump, sources.device_dump
        self._executor, self._memory = executor, memory
        self.runs = 0
        self.squares: dict[TensorKey, float] = {}
        """The squared errors of what calls read."""

    def by_output(
        self, measured: Mapping[TensorRef, _Measured]
    ) -> dict[TensorRef, dict[TensorKey, float]]:
        """By judged output, and by where the device's dump has an input, the square of the error
        golden's call makes when it reads that input as the device did."""
        found: dict[TensorRef, dict[TensorKey, float]] = {}
        tries: dict[str, tuple[TensorRef, str]] = {}
        subgraphs = []
        for ref, each in measured.items():
            unlike = [place for place in self._places(ref.op) if self._is_unlike(ref.op, place)]
            found[ref] = dict.fromkeys((self._key(ref.op, place) for place in unlike), 1.0)
            for place in unlike if len(unlike) > 1 else ():
                key = str(len(tries))
                tries[key] = ref, place
                call = self._golden_ops[each.golden.op]
                inputs = tuple(one.tensor for one in call.inputs if one is not None)
                output = call.outputs[each.golden.port].name
                subgraphs.append(RunnableSubgraph(key, inputs, (output,)))
        for result in self._executor.run_subgraphs(
            subgraphs, lambda part: self._feeds(*tries[part.key]), memory=self._memory // 2
        ):
            self.runs += 1
            ref, place = tries[result.key]
            made = next(iter(result.values.values()), None)
            right = self._value(0, (measured[ref].golden.op, TensorIO.OUTPUT, ref.port))
            if made is not None and right is not None and made.size == right.size:
                found[ref][self._key(ref.op, place)] = _square(made, right.reshape(made.shape))
        return found

    def _places(self, op: str) -> Iterator[str]:
        call = self._golden_ops[self._twins[op]]
        for ref in call.inputs:
            place = "" if ref is None else ref.tensor.removeprefix(input_name(call.id, ""))
            if input_name(op, place) in self._device.sources:
                yield place

    def _key(self, op: str, place: str) -> TensorKey:
        return self._device.sources[input_name(op, place)]

    def _both(self, op: str, place: str) -> tuple[Array | None, Array | None]:
        golden = self._golden.sources[input_name(self._twins[op], place)]
        return self._value(0, golden), self._value(1, self._key(op, place))

    def _is_unlike(self, op: str, place: str) -> bool:
        golden, device = self._both(op, place)
        if golden is None or device is None or golden.dtype.kind != "f":
            return False
        if golden.shape != device.shape or np.array_equal(golden, device, equal_nan=True):
            return golden.shape != device.shape
        self.squares[self._key(op, place)] = _square(device, golden)
        return True

    def _feeds(self, ref: TensorRef, other: str) -> dict[str, Array]:
        fed: dict[str, Array] = {}
        for place in self._places(ref.op):
            golden, device = self._both(ref.op, place)
            value = device if place == other else golden
            if value is not None:
                fed[input_name(self._twins[ref.op], place)] = value
        return fed

    def _value(self, side: int, key: TensorKey) -> Array | None:
        dump: DumpIndex = self._dumps[side]
        ref = dump.tensors.get(key)
        value = None if ref is None or ref.statistics is not None else read_tensor(ref)
        return None if isinstance(value, Unread) else value


class _HandedBack:
    """Hands parts of an error back from each call to those that made its inputs."""

    def __init__(
        self,
        device: ModelGraph,
        measured: Mapping[TensorRef, _Measured],
        brought: Mapping[TensorRef, Mapping[TensorKey, float]],
        squares: Mapping[TensorKey, float],
    ) -> None:
        self.ops = device.op_index()
        self._measured, self._brought, self._squares = measured, brought, squares
        self._order = [op.id for op in reversed(device.ops)]

    def known(self) -> Iterable[tuple[TensorRef, _Measured]]:
        """The judged outputs."""
        return self._measured.items()

    def shares(self, ends: Mapping[TensorRef, float]) -> tuple[dict[TensorRef, float], set[str]]:
        """The own parts of all calls of errors whose parts are *ends*, and the calls passed
        through that were not run again."""
        waiting: dict[str, dict[TensorRef, float]] = defaultdict(lambda: defaultdict(float))
        own: dict[TensorRef, float] = defaultdict(float)
        through: set[str] = set()
        for ref, part in ends.items():
            waiting[ref.op][self._inner(ref)] += part
        for op in self._order:
            for ref, part in list(waiting.pop(op, {}).items()):
                for source, share in self._split(ref, through):
                    if source == ref:
                        own[ref] += part * share
                    else:
                        waiting[source.op][source] += part * share
        return own, through

    def _split(self, ref: TensorRef, through: set[str]) -> list[tuple[TensorRef, float]]:
        """Whose the error of *ref* is: its own, and that of the outputs before it."""
        known = self._measured.get(ref)
        weights: list[tuple[TensorRef, float]] = []
        if known is None:
            through.add(ref.op)
            op = self.ops[ref.op]
            sources = _brought(op, INSIDE) or _brought(op, KEPT, others=True) or op.takes
            weights += [(each, self._error(each)) for each in map(self._inner, sources)]
        else:
            weights.append((ref, known.own))
            for key, weight in self._brought.get(ref, {}).items():
                makers = [self._inner(each) for each in self._makers(key)]
                total = sum(map(self._error, makers))
                if makers and self._is_between(makers, total, self._squares.get(key, 0.0)):
                    weights.append((ref, weight))  # nothing is nearer to where it starts
                    continue
                for each in makers:
                    weights.append((each, weight * (self._error(each) / total if total else 0.0)))
        total = sum(weight for _, weight in weights)
        # What comes after in time is an owner around it, which adds nothing of its own.
        return [(each, weight / total) for each, weight in weights if total and weight]

    def _is_between(self, makers: Iterable[TensorRef], total: float, square: float) -> bool:
        """Whether what was read is off by far more than what the *makers* of it gave, all of which
        are known."""
        return all(each in self._measured for each in makers) and total < _BETWEEN * square

    def _error(self, ref: TensorRef) -> float:
        known = self._measured.get(ref)
        return 1e-30 if known is None else known.error + 1e-30

    def _makers(self, key: TensorKey) -> Iterator[TensorRef]:
        op, io, port = key
        if io is TensorIO.OUTPUT:
            yield TensorRef(op, port)
            return
        inputs = self.ops[op].inputs
        ref = inputs[port] if port < len(inputs) else None
        if ref is not None and ref.producer is not None:
            yield ref.producer
        elif ref is not None:
            begin = f"{ref.tensor} ("
            for each in inputs:
                if each is not None and each.producer and each.tensor.startswith(begin):
                    yield each.producer

    def _inner(self, ref: TensorRef) -> TensorRef:
        """The output of the call inside that a module gives out as its own."""
        op = self.ops[ref.op]
        given = op.outputs[ref.port].name if ref.port < len(op.outputs) else ""
        passed = _passed(op, given)
        return self._inner(passed) if passed and passed in self._measured else ref


def _brought(op: Op, how: str, *, others: bool = False) -> list[TensorRef]:
    """What was brought to a call *how*, or all else it read."""
    return [
        ref.producer
        for ref in op.inputs
        if ref is not None
        and ref.producer is not None
        and ref.tensor.endswith(f"({how})") is not others
    ]


def _passed(op: Op, name: str) -> TensorRef | None:
    for ref in op.inputs:
        if ref is not None and ref.tensor == name and ref.producer is not None:
            return ref.producer
    return None


def _blame(
    data: RunData,
    handed: _HandedBack,
    ends: Mapping[TensorRef, _Measured],
    exact: Sequence[str],
    keep: int,
    runs: int,
) -> Blame:
    names = tensor_names(data.golden)
    labels = {ref: names[str(each.golden)] for ref, each in ends.items()}
    errors = {labels[ref]: (each.error / each.size) ** 0.5 for ref, each in ends.items()}
    whole = sum(error**2 for error in errors.values())
    by_output: dict[TensorRef, dict[str, float]] = defaultdict(dict)
    through: set[str] = set()
    total: dict[TensorRef, float] = defaultdict(float)
    for end, label in labels.items():
        own, passed = handed.shares({end: 1.0})
        through |= passed
        for ref, part in own.items():
            by_output[ref][label] = part
            total[ref] += part * errors[label] ** 2 / whole if whole else 0.0
    off = (whole / len(errors)) ** 0.5
    ranked = sorted((ref for ref in total if total[ref] > 0), key=lambda ref: -total[ref])
    golden = {ref: each.golden for ref, each in handed.known()}
    shares = tuple(
        Share(
            op=ref.op,
            port=ref.port,
            tensor=names[str(golden[ref])],
            group=(golden[ref].op,),
            share=total[ref],
            size=total[ref] ** 0.5,
            left=off * _left(total[ref]),
            by_output=by_output[ref],
        )
        for ref in ranked
    )
    return Blame(
        errors,
        _left(sum(total.values())) if whole else 0.0,
        shares,
        tuple(_kept(shares[:keep])),
        runs,
        left_out=tuple(op for op in handed.ops if op in through),
        stand_ins=stand_ins(data.golden, errors),
        warnings=_remarks(through),
        what_if=_what_if(shares, exact) if exact else None,
    )


def _remarks(through: set[str]) -> tuple[str, ...]:
    said = "shares are of the squared error, handed back call by call: no recorded run runs whole"
    said += "; what weights of another type differ by comes from no measured op"
    if not through:
        return (said,)
    return said, f"{len(through)} calls on the way were not run again: their own part is not known"


def _kept(shares: Iterable[Share]) -> Iterator[KeepListEntry]:
    gone = 0.0
    for each in shares:
        if each.share < _ENOUGH:
            return
        gone += each.share
        yield KeepListEntry(each.op, each.tensor, each.group, _left(gone), _left(gone))


def _what_if(shares: Iterable[Share], exact: Sequence[str]) -> WhatIf:
    gone = {op: sum(each.share for each in shares if each.op == op) for op in exact}
    left = _left(sum(gone.values()))
    return WhatIf(tuple(exact), left, left, tuple(op for op, share in gone.items() if not share))


def _left(gone: float) -> float:
    return math.sqrt(max(0.0, 1.0 - gone))


def _square(one: Array, other: Array) -> float:
    with np.errstate(all="ignore"):
        apart = np.subtract(one, other, dtype=np.float64)
    return float(np.sum(np.square(apart, where=np.isfinite(apart), out=np.zeros_like(apart))))
