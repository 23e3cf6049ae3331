"""A kept run opened for cutting parts out of its golden and its device graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from divergraph.execution.contract import DEFAULT_MEMORY, Array
from divergraph.progress import Progress
from divergraph.root_cause.run import RunSources
from divergraph.root_cause.stored import sources_of
from divergraph.root_cause.values import RunValues
from divergraph.submodels.select import JUST_SO, Selector
from divergraph.submodels.selection import Facts, Selection, TensorFacts, Wish
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import (
    DumpTensorRef,
    LineageLink,
    Side,
    TensorIO,
    TensorRef,
)
from importers.dumps import DumpIndex, read_array

_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp", "ReadVariableOp"})


class RunParts:
    """Graphs, lineage and dumps of one run."""

    def __init__(self, data: RunData, sources: RunSources, memory: int = DEFAULT_MEMORY) -> None:
        self.data = data
        self.sources = sources
        self.golden = data.golden
        self.device = data.device
        pairs = {
            TensorRef(pair.op.id, pair.port): pair
            for pair in sources.pairs
            if pair.io is TensorIO.OUTPUT
        }
        shapes = {
            TensorRef(item.op, item.port): item.shape
            for item in data.comparisons
            if item.io is TensorIO.OUTPUT and item.shape is not None
        }
        self._outputs: dict[TensorRef, TensorRef] = {}
        for output, pair in pairs.items():
            if output in shapes:
                self._outputs.setdefault(pair.match.golden, output)
        self._values = RunValues(pairs, shapes, sources.golden_dump, sources.device_dump, memory)

    @cached_property
    def selector(self) -> Selector:
        """Cuts the golden graph; knows what was dumped."""
        return Selector(self.golden, _facts_of(self.sources.golden_dump))

    @cached_property
    def device_selector(self) -> Selector:
        """Cuts the device graph."""
        return Selector(self.device, _facts_of(self.sources.device_dump))

    @cached_property
    def originals(self) -> Mapping[str, tuple[str, ...]]:
        """The golden ops each device op stands for."""
        return _joined(self.data.links, device_first=True)

    @cached_property
    def stands_for(self) -> Mapping[str, tuple[str, ...]]:
        """The device ops that stand for each golden op."""
        return _joined(self.data.links, device_first=False)

    @cached_property
    def fused(self) -> Mapping[str, Sequence[str]]:
        """The originals of each op made of several; an op split over several is no such."""
        return {
            op: group
            for op, group in self.originals.items()
            if len(group) > 1 and all(len(self.stands_for[one]) == 1 for one in group)
        }

    def select(self, starts: Sequence[str], ends: Sequence[str], wish: Wish = JUST_SO) -> Selection:
        """The part of the golden graph between ops named in either graph.

        Raises:
            InputError: an op neither graph has, or one that stands for no original.
        """
        groups = dict(wish.groups) or self.fused
        known = Wish(groups, wish.whole, wish.all_outputs, wish.data)
        first = [op for name in starts for op in self.golden_ops(name, last=False)]
        last = [op for name in ends for op in self.golden_ops(name, last=True)]
        return self.selector.between(first, last, known)

    def golden_ops(self, name: str, *, last: bool) -> tuple[str, ...]:
        """The golden op *name*, or of the device op of that name the originals at its
        *last* or first end."""
        if name in self.selector.ops or name not in self.device_ids:
            return (name,)  # the selector says what is wrong with it
        group = set(self.originals.get(name, ())) & self.selector.ops.keys()
        if not group:
            raise InputError(
                f"the device op {name!r} stands for no original op",
                hint="choose the op before or behind it, or --format ge",
            )
        part = self.selector.hull(group, Wish(data=False))
        return part.ends if last else part.starts

    def floor(self, key: TensorRef) -> float | None:
        """The relative error the device's arithmetic explains in a golden tensor, if the
        root-cause analysis told."""
        output = self._outputs.get(key)
        return None if output is None else self._floors.get(output)

    @cached_property
    def _floors(self) -> Mapping[TensorRef, float]:
        return {
            TensorRef(item.op, item.port): item.split.floor
            for item in self.data.comparisons
            if item.io is TensorIO.OUTPUT and item.split and item.split.floor is not None
        }

    @cached_property
    def device_ids(self) -> frozenset[str]:
        """Ids of the device's ops."""
        return frozenset(op.id for op in self.device.ops)

    def device_ops(self, golden: Sequence[str]) -> tuple[str, ...]:
        """The device ops that stand for any of the ops *golden*, in execution order."""
        found = {op for one in golden for op in self.stands_for.get(one, ())}
        number = self.device_selector.arrays.number
        return tuple(sorted(found, key=number.__getitem__))

    def golden_ref(self, key: TensorRef | str) -> DumpTensorRef | None:
        """Where the golden value of an output, or of an input of the model, lies."""
        return _ref_of(self.sources.golden_dump, key)

    def golden_value(self, key: TensorRef | str) -> Array:
        """The golden value of an output, or of an input of the model.

        Raises:
            InputError: it was not dumped.
            ImportFormatError: the dump is damaged.
        """
        found = self.golden_ref(key)
        if found is None:
            raise InputError(f"the golden value of {key} was not dumped")
        return read_array(found)

    def variables(self, part: Selection) -> dict[str, Array]:
        """The dumped values of variables in *part*, by tensor name: checkpoints of training
        graphs keep no values in the graph's file."""
        found: dict[str, Array] = {}
        for op in part.ops:
            if self.selector.ops[op].type in _VARIABLES:
                for port, tensor in enumerate(self.selector.ops[op].outputs):
                    ref = TensorRef(op, port)
                    if self.golden_ref(ref) is not None:
                        found[tensor.name] = self.golden_value(ref)
        return found

    def device_value(self, key: TensorRef | str) -> Array | None:
        """What the device made of the golden tensor *key*, or was fed as the model's input, in
        golden layout and shape; None if nothing stands for it or can be read."""
        if isinstance(key, str):
            return self._values.device_input(key)
        output = self._outputs.get(key)
        return None if output is None else self._values.device(output)


def opened(
    data: RunData, progress: Progress, *, model: Path | None = None, memory: int = DEFAULT_MEMORY
) -> RunParts:
    """The parts of a kept run; *model* is where its golden model lies now, if elsewhere.

    Raises:
        InputError: a model or dump is gone or another one than was compared.
    """
    if model is not None:
        inputs = {**data.run.inputs, Side.GOLDEN.value: str(model)}
        data = replace(data, run=replace(data.run, inputs=inputs))
    return RunParts(data, sources_of(data, progress), memory)


def _facts_of(dump: DumpIndex) -> Facts:
    def facts(key: TensorRef | str) -> TensorFacts:
        found = _ref_of(dump, key)
        if found is None:
            return TensorFacts()
        return TensorFacts(found.dtype, found.original_shape or found.shape, dumped=True)

    return facts


def _ref_of(dump: DumpIndex, key: TensorRef | str) -> DumpTensorRef | None:
    if isinstance(key, str):
        return dump.graph_inputs.get(key)
    return dump.tensors.get((key.op, TensorIO.OUTPUT, key.port))


def _joined(links: Sequence[LineageLink], *, device_first: bool) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for link in links:
        pair = (link.device, link.original) if device_first else (link.original, link.device)
        found.setdefault(pair[0], {})[pair[1]] = None
    return {op: tuple(group) for op, group in found.items()}
