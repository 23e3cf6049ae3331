"""A kept run opened for cutting parts out of its golden and its device graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from divergraph.execute.contract import DEFAULT_MEMORY, Array
from divergraph.jobs.progress import Progress
from divergraph.rootcause.calls_alone import is_recorded, standing_alone
from divergraph.rootcause.run_inputs import RunInputs, RunSources
from divergraph.rootcause.stored import sources_of
from divergraph.submodel.constants import values_of_the_run
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.select import Selector
from divergraph.submodel.selection import Facts, Selection, TensorFacts
from divergraph.values.run_values import RunValues
from divergraph.values.unread import or_raise
from graphstore.contract import RunData
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import DType, DumpTensorRef, ModelGraph, Reason, Side, TensorIO, TensorRef
from importers.dumps.arrays.golden_names import GoldenNames
from importers.dumps.arrays.npy import load_any_npy
from importers.dumps.index import DumpIndex


class RunParts(LinkedGraphs):
    """Graphs, lineage and dumps of one run."""

    def __init__(self, data: RunData, sources: RunSources, memory: int = DEFAULT_MEMORY) -> None:
        super().__init__(data)
        self.sources = sources
        self.made_of = ""
        """What tells this run from others if it is kept nowhere; empty for one of a store."""
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
        self.matched_outputs: dict[TensorRef, TensorRef] = {}
        """The device output that each golden tensor was compared with."""
        for output, pair in pairs.items():
            if output in shapes:
                self.matched_outputs.setdefault(pair.match.golden, output)
        tensors = {output: pair.tensors for output, pair in pairs.items()}
        self._values = RunValues(tensors, shapes, sources.golden_dump, sources.device_dump, memory)
        self._texts = TextValues(data.golden, sources.golden_dump)

    @cached_property
    def selector(self) -> Selector:
        """Cuts the golden graph; knows what was dumped."""
        return Selector(self.golden, _facts_of(self.sources.golden_dump, texts=self._texts))

    @cached_property
    def device_selector(self) -> Selector:
        """Cuts the device graph."""
        return Selector(self.device, _facts_of(self.sources.device_dump, as_stored=True))

    def floor(self, key: TensorRef) -> float | None:
        """The relative error the device's arithmetic explains in a golden tensor; None without a
        root-cause analysis."""
        output = self.matched_outputs.get(key)
        return None if output is None else self._floors.get(output)

    @cached_property
    def _floors(self) -> Mapping[TensorRef, float]:
        return {
            TensorRef(item.op, item.port): item.split.floor
            for item in self.data.comparisons
            if item.io is TensorIO.OUTPUT and item.split and item.split.floor is not None
        }

    def has_golden(self, key: TensorRef | str) -> bool:
        """Whether the golden value of an output, or of an input of the model, was dumped."""
        is_dumped = _ref_of(self.sources.golden_dump, key) is not None
        return is_dumped or self._texts.shape(key) is not None

    def golden_value(self, key: TensorRef | str) -> Array:
        """The golden value of an output, or of an input of the model.

        Raises:
            InputError: it was not dumped.
            ImportFormatError: the dump is damaged.
        """
        value = or_raise(self._values.golden_or_why(key))
        if value is not None:
            return value
        if self._texts.shape(key) is not None:
            return self._texts.value(key)
        raise InputError(f"the golden value of {key} was not dumped")

    def variables(self, part: Selection) -> dict[str, Array]:
        """The dumped values of what *part* holds but its model file does not, by tensor name:
        variables and what reads them, numbers that were drawn."""

        def dumped(key: TensorRef) -> Array | None:
            return self.golden_value(key) if self.has_golden(key) else None

        return values_of_the_run(self.selector.ops, part.ops, dumped)

    def device_value(self, key: TensorRef | str) -> Array | None:
        """The device's value of the golden tensor *key*, or of the model's input, in golden's
        layout and shape; None if it has no counterpart or cannot be read."""
        if isinstance(key, str):
            return self._values.device_input(key)
        output = self.matched_outputs.get(key)
        return None if output is None else self._values.device(output)


def opened(
    data: RunData, progress: Progress, *, model: Path | None = None, memory: int = DEFAULT_MEMORY
) -> RunParts:
    """The parts of a kept run; *model* is where its golden model lies now, if elsewhere.

    Raises:
        InputError: a model or dump is gone or another one than was compared.
    """
    if model is not None:
        inputs = {**data.run.inputs, Side.GOLDEN.value: str(model.absolute())}
        data = replace(data, run=replace(data.run, inputs=inputs))
    sources = sources_of(data, progress, memory)
    if is_recorded(data):  # a part is cut between calls that stand alone, as edges are guessed
        alone = standing_alone(RunInputs(data, sources, data.comparisons, lambda _: None))
        data, sources = alone.data, alone.sources
    return RunParts(data, sources, memory)


def _facts_of(
    dump: DumpIndex, *, as_stored: bool = False, texts: TextValues | None = None
) -> Facts:
    """The facts a dump has of tensors; with *as_stored*, shapes are those of the stored layout."""

    def facts(key: TensorRef | str) -> TensorFacts:
        ref = _ref_of(dump, key)
        if ref is None:
            shape = None if texts is None else texts.shape(key)
            return TensorFacts() if shape is None else TensorFacts(DType.STRING, shape, dumped=True)
        original = None if as_stored else ref.original_shape
        return TensorFacts(ref.dtype, original or ref.shape, dumped=True)

    return facts


def _ref_of(dump: DumpIndex, key: TensorRef | str) -> DumpTensorRef | None:
    if isinstance(key, str):
        return dump.graph_inputs.get(key)
    return dump.tensors.get((key.op, TensorIO.OUTPUT, key.port))


_ENDING = ".npy"


class TextValues:
    """The ``.npy`` files of text in a dump of *graph*; pickled objects are none."""

    def __init__(self, graph: ModelGraph, dump: DumpIndex) -> None:
        self._graph = graph
        self._dump = dump

    def shape(self, key: TensorRef | str) -> tuple[int, ...] | None:
        """The shape of an output, or an input of the model, that is text; None for others."""
        return None if key not in self._paths else self.value(key).shape

    def value(self, key: TensorRef | str) -> Array:
        """Its text, as numpy's unicode or bytes.

        Raises:
            ImportFormatError: the file is damaged.
        """
        path = self._paths[key]
        try:
            return np.asarray(load_any_npy(path))
        except (OSError, ValueError, EOFError) as error:
            raise ImportFormatError(path, f"this cannot be read: {error}") from error

    @cached_property
    def _paths(self) -> dict[TensorRef | str, Path]:
        return dict(self._found())

    def _found(self) -> Iterator[tuple[TensorRef | str, Path]]:
        names: GoldenNames | None = None
        for problem in self._dump.problems:
            path = problem.path
            if problem.reason is not Reason.DTYPE_UNSUPPORTED or path.suffix != _ENDING:
                continue
            if not _is_text(path):
                continue
            if problem.op is not None:
                if problem.io is TensorIO.OUTPUT and problem.port is not None:
                    yield TensorRef(problem.op, problem.port), path
                continue
            names = names or GoldenNames(self._graph)
            graph_input = names.find_input(path.name.removesuffix(_ENDING))
            if graph_input is not None:
                yield graph_input[0].name, path


def _is_text(path: Path) -> bool:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype.kind in "US"
    except (OSError, ValueError, EOFError):
        return False
