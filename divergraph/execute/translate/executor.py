"""Run a translated model with ONNX Runtime, op by op as its author wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from divergraph.execute.contract import (
    DEFAULT_MEMORY,
    OP_TYPE,
    AdditiveRun,
    Array,
    Executor,
    QuantisedRead,
    QuantisedRun,
    RunnableSubgraph,
    SubgraphResult,
    SubgraphValues,
    Unavailable,
    checked_feeds,
    chosen_tensors,
)
from divergraph.execute.onnx.altered import OnnxChangedRun, open_for_additions
from divergraph.execute.onnx.quantised import open_boundaries
from divergraph.execute.onnx.session import load_onnxruntime, open_session, plain_options
from divergraph.execute.precision import PRECISION, told
from divergraph.execute.side_by_side import run_in_batches
from divergraph.execute.translate.contract import KnownTensor, NeedsValueError, NotTranslatedError
from divergraph.execute.translate.program import Program, TranslatedSlice, slice_of
from divergraph.execute.translate.run import ProgramRun, give_values, require_made, run_translation
from divergraph.execute.translate.translation import Translation
from graphstore.errors import ExecutionError
from graphstore.model import AttrValue, ModelGraph, Op, Tensor

_MOST_PIECES = 400


class TranslatedModelFactory:
    """What factories of models that are translated to ONNX have in common."""

    extra = ""
    packages = ("onnx", "onnxruntime")
    load = staticmethod(load_onnxruntime)
    options: Mapping[str, str] = PRECISION

    def computes(self, op: Op) -> bool:
        """Every op does."""
        return True

    def open(self, path: Path, graph: ModelGraph) -> Executor:
        """As :meth:`open_with`, without options."""
        return self.open_with(path, graph, {})

    def open_with(self, path: Path, graph: ModelGraph, options: Mapping[str, str]) -> Executor:
        """The model in *path*, with some of :attr:`options`."""
        raise NotImplementedError


def runner_name(*, double: bool) -> str:
    """What runs a translated model, as answers name it."""
    import onnxruntime

    return told(f"onnxruntime {onnxruntime.__version__}", double=double)


class TranslatedExecutor:
    """One model of another framework, translated to ONNX as it runs.

    ``unavailable`` grows in a run by what that run could not give: branches that were not taken,
    ops without a translation for these shapes.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.name = program.name
        self.tensors: tuple[str, ...] = program.tensors()
        self.inputs: tuple[Tensor, ...] = program.used_inputs(self.tensors)
        self.unavailable: tuple[Unavailable, ...] = tuple(
            Unavailable(name, reason) for name, reason in program.unavailable().items()
        )

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted*; what an untaken branch would have made is left out."""
        names = chosen_tensors(self.tensors, wanted)
        budget = memory // 4 if self._program.double else memory // 2
        run = ProgramRun(self._program, checked_feeds(self.inputs, feeds), names, budget)
        try:
            yield from run.values()
        finally:
            run.close()
        for name, reason in run.lost.items():
            self._lose(name, reason)

    def run_subgraphs(
        self,
        subgraphs: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        """Run pieces side by side in one session a batch; halved where one does not run."""
        nbytes = self._program.constants.nbytes
        return run_in_batches(
            subgraphs,
            lambda piece: self._as_declared(values(piece)),
            partial(slice_of, self._program),
            self._side_by_side,
            memory // 2,  # the other half is for the outputs
            weights=lambda part: {name: nbytes(name) for name in part.constants},
            limit=_MOST_PIECES,
        )

    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """One session of what the outputs need, with an input added to each of *tensors*."""
        return self.with_readings(feeds, tensors, outputs, ())

    def with_readings(
        self,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
        readings: Sequence[QuantisedRead],
    ) -> QuantisedRun:
        """As ``with_additions``, and with *readings* of ops as they are or in 8 bits."""
        from onnx import helper

        computed_names = set(self.tensors)
        chosen_tensors(self.tensors, (*tensors, *outputs))
        outside = {name: value for name, value in feeds.items() if name not in computed_names}
        inputs_fed = [tensor for tensor in self.inputs if tensor.name in outside]
        all_feeds = {**self._as_declared(feeds), **checked_feeds(inputs_fed, outside)}
        translation = self._translated(all_feeds, outputs)
        types = {
            name: translation.known[name].dtype
            for name in tensors
            if name in translation.known
            and name not in all_feeds
            and translation.known[name].dtype.kind == "f"
        }
        model, constants = translation.model(outputs, types)
        makers = open_boundaries(model, readings, self._owner) if readings else ()
        numbers = {name: helper.np_dtype_to_tensor_dtype(kind) for name, kind in types.items()}
        open_for_additions(model, numbers, {}, outputs)
        session = open_session(model, Path(), plain_options())
        inputs = {value.name for value in model.graph.input}
        fed = {name: value for name, value in all_feeds.items() if name in inputs}
        open_feeds = [name for name in tensors if name in fed and fed[name].dtype.kind == "f"]
        return OnnxChangedRun(session, {**constants, **fed}, types, open_feeds, outputs, makers)

    def _owner(self, tensor: str) -> str:
        """The first output of the op that makes *tensor*, which may be inside of its piece."""
        op = self._program.makers.get(tensor)
        if op is None:
            place = self._program.rank.get(tensor.partition("\n")[0])
            op = None if place is None else self._program.ops[place]
        return op.outputs[0].name if op is not None and op.outputs else ""

    def run_altered(
        self,
        piece: RunnableSubgraph,
        values: Mapping[str, Array],
        tensor: str,
        attrs: Mapping[str, AttrValue],
    ) -> Mapping[str, Array] | None:
        """The piece alone, the op that makes *tensor* with other attributes."""
        maker = self._program.makers.get(tensor)
        if maker is None:
            return None
        others = {key: value for key, value in attrs.items() if key != OP_TYPE}
        kind = str(attrs.get(OP_TYPE, maker.type))
        changed = replace(maker, type=kind, attrs={**maker.attrs, **others})
        try:
            part = slice_of(self._program, piece)
            ops = tuple(changed if op is maker else op for op in part.ops)
            results = self._run_slice(replace(part, ops=ops), self._as_declared(values))
        except (ExecutionError, NotTranslatedError):
            return None  # the shapes do not fit the changed attributes
        return dict(zip(part.made, results, strict=True))

    def close(self) -> None:
        """Nothing is kept open between runs."""

    def _translated(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Translation:
        """All that makes *outputs*, in one model; values that shape it are run for at once."""
        translation = self._program.translation()
        for name, value in feeds.items():
            translation.give(name, KnownTensor(value.dtype, value.shape))
        for op in self._program.needed(outputs, feeds):
            self._add(translation, op, feeds)
        return translation

    def _add(self, translation: Translation, op: Op, feeds: Mapping[str, Array]) -> None:
        tried: set[str] = set()
        while True:
            try:
                translation.add(op)
            except NeedsValueError as error:
                if error.tensor in tried:
                    raise ExecutionError(f"{op.id!r} {error}") from error
                tried.add(error.tensor)
                value = feeds.get(error.tensor)
                if value is None:
                    (value,) = run_translation(translation, [error.tensor], feeds)
                translation.known[error.tensor] = KnownTensor.of(value)
            except NotTranslatedError as error:
                raise ExecutionError(str(error)) from error
            else:
                return

    def _side_by_side(
        self, slices: Sequence[TranslatedSlice], feeds_of_slices: Sequence[Mapping[str, Array]]
    ) -> Iterator[Array | ExecutionError]:
        """The outputs of slices run in one session, slice by slice. One that cannot be translated
        beside the others is run alone, and fails alone."""
        translation = self._program.translation() if len(slices) > 1 else None
        feeds: dict[str, Array] = {}
        together: dict[int, list[str]] = {}
        for number, (part, values) in enumerate(zip(slices, feeds_of_slices, strict=True)):
            names = (
                None
                if translation is None
                else self._beside(translation, part, values, f"{number}\n")
            )
            if names is not None:
                together[number] = names
                feeds.update((f"{number}\n{name}", value) for name, value in values.items())
        names = [name for names_of_part in together.values() for name in names_of_part]
        results = iter(
            run_translation(translation, names, feeds) if translation is not None else ()
        )
        for number, (part, values) in enumerate(zip(slices, feeds_of_slices, strict=True)):
            if number in together:
                yield from (next(results) for _ in part.made)
            else:
                yield from self._alone(part, values)

    def _beside(
        self,
        translation: Translation,
        part: TranslatedSlice,
        values: Mapping[str, Array],
        scope: str,
    ) -> list[str] | None:
        """Translate a slice beside others; what its outputs are called, None if that cannot be."""
        give_values(translation, values, scope)
        try:
            for op in part.ops:
                translation.add(op, scope)
            names = [translation.named(name, scope) for name in part.made]
            require_made(translation, names)
        except (ExecutionError, NeedsValueError, NotTranslatedError):
            return None
        return names

    def _alone(
        self, part: TranslatedSlice, values: Mapping[str, Array]
    ) -> list[Array] | list[ExecutionError]:
        try:
            return self._run_slice(part, values)
        except ExecutionError as error:
            return [error for _ in part.made]

    def _run_slice(self, part: TranslatedSlice, values: Mapping[str, Array]) -> list[Array]:
        """The outputs of one slice; what shapes it is run for on the way."""
        translation = self._program.translation()
        feeds = give_values(translation, values)
        for op in part.ops:
            self._add(translation, op, values)
        return run_translation(translation, part.made, feeds)

    def _as_declared(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Values in the element types the model computes in; a device may hold others."""
        as_declared: dict[str, Array] = {}
        declared = {tensor.name: tensor for tensor in self.inputs}
        for name, value in values.items():
            if name in self._program.hidden:
                continue
            maker = self._program.makers.get(name)
            tensors = maker.outputs if maker is not None else ()
            tensor = declared.get(name) or next((t for t in tensors if t.name == name), None)
            dtype = tensor.dtype.numpy if tensor is not None and tensor.dtype else None
            # asarray without a dtype, too: sums of arrays of no axes are no arrays any more
            as_declared[name] = np.asarray(value, dtype)
        return as_declared

    def _lose(self, tensor: str, reason: str) -> None:
        if all(unavailable.tensor != tensor for unavailable in self.unavailable):
            self.unavailable = (*self.unavailable, Unavailable(tensor, reason))
