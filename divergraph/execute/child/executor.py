"""An executor whose model runs in a process beside this one."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from divergraph.execute.child.asked import AskedSubgraphs
from divergraph.execute.child.limits import (
    BrokenExecutorError,
    ModelEndedError,
    ModelLimits,
    shared_folders,
)
from divergraph.execute.child.process import CHILDREN, ModelProcess, Place, give_back, take_process
from divergraph.execute.contract import (
    DEFAULT_MEMORY,
    AdditiveRun,
    Array,
    BodyChange,
    ConfinedFactory,
    Executor,
    QuantisedRead,
    QuantisedRun,
    RunnableSubgraph,
    SubgraphResult,
    SubgraphValues,
    Unavailable,
)
from graphstore.errors import ExecutionError
from graphstore.model import AttrValue, Framework, ModelGraph, Tensor
from graphstore.own_folder import OwnFolder

_MOST_ENDINGS = 5
"""So often a model may end its process; then it is not opened again."""


def open_in_child(
    factory: ConfinedFactory, path: Path, graph: ModelGraph, options: Mapping[str, str] | None
) -> Executor:
    """The model behind *path*, opened by *factory* in a process of its own.

    Raises:
        DivergraphError: as of the factory, or the model ended the process.
    """
    model = _Model(factory, path, graph, options)
    kinds = tuple(_CAPABILITIES[name] for name in model.answer["can"])
    executor: ChildExecutor = type("OpenedInChild", (*reversed(kinds), ChildExecutor), {})(model)
    return executor


def called_in_child(
    readable: Sequence[Path],
    load: Callable[[], object],
    function: Callable[..., Any],
    *arguments: object,
    into: Path | None = None,
) -> Any:
    """What *function* gives that runs a model by what *load* imports; it may read *readable*.

    It is one of a module of ours, is called with a folder it may write to and *arguments*, gives
    arrays by name, a text or None. The files it wrote are moved *into* a folder.

    Raises:
        DivergraphError: what it raises, or that it ended its process.
    """
    if not CHILDREN:
        with OwnFolder("model") as place:
            value = function(place, *arguments)
            _move(place, into)
            return value
    process = take_process(_place(readable, load))
    try:
        result_folder = tempfile.mkdtemp(dir=process.folder)
        process.load()
        value = process.ask("call", function, Path(result_folder), *arguments)["value"]
        _move(Path(result_folder), into)
    finally:
        give_back(process)
    return value


def _move(source: Path, into: Path | None) -> None:
    if into is None:
        return
    for path in source.iterdir():
        if path.is_symlink() or not path.is_file():
            raise ExecutionError(f"the model made {path.name!r}, which is no file")
        shutil.move(path, into)


def isolation_gaps() -> tuple[tuple[str, str], ...]:
    """What of the isolation does not hold on this system, and why."""
    if not CHILDREN:
        return (("a process of its own", "this system has none"),)
    process = take_process(_place((), None))
    try:
        return tuple((str(part), str(why)) for part, why in process.ask("gaps")["gaps"])
    finally:
        give_back(process)


def _place(readable: Iterable[Path], loads: Callable[[], object] | None) -> Place:
    shared = shared_folders()
    own = (path for path in readable if not any(map(path.is_relative_to, shared)))
    return Place(tuple(sorted({*own, *shared})), ModelLimits.of_environment(), loads)


class _Model:
    """A model and the process it is open in; opened again if it ended that one."""

    def __init__(
        self,
        factory: ConfinedFactory,
        path: Path,
        graph: ModelGraph,
        options: Mapping[str, str] | None,
    ) -> None:
        self.graph = graph
        self._opening = (factory, path, graph, None if options is None else dict(options))
        self._place = _place(_folders(path, graph, options), factory.load)
        self._process: ModelProcess | None = None
        self._endings = 0
        self._number = 0
        self.answer = self._open()

    def opened(self) -> tuple[ModelProcess, int]:
        """Its process, and its number there."""
        if self._process is None or self._process.ended:
            self._open()
        assert self._process is not None
        return self._process, self._number

    def may_go_on(self) -> bool:
        """Count that it ended its process; whether it may be opened once more."""
        self._endings += 1
        return self._endings < _MOST_ENDINGS

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.drop(self._number)
            give_back(process)

    def _open(self) -> dict[str, Any]:
        self.close()
        process = take_process(self._place)
        try:
            process.load()
            number = next(process.numbers)
            answer = process.ask("open", number, *self._opening)
        except BaseException:
            give_back(process)
            raise
        self._process, self._number = process, number
        return answer


def _folders(path: Path, graph: ModelGraph, options: Mapping[str, str] | None) -> Iterable[Path]:
    """Where the files of a model lie: beside it, and where its options say."""
    texts = [str(path), graph.source, *(options or {}).values()]
    if graph.framework is Framework.CAFFE:  # there the user says where the weights are, not the net
        texts += {
            str(path.parent / constant.location)
            for constant in graph.constants
            if constant.location
        }
    for text in filter(None, texts):
        for place in (Path(text), Path(text).resolve()):
            if place.is_dir():
                yield place.absolute()
            elif place.parent.is_dir() and _names_a_place(place):
                yield place.parent.absolute()


def _names_a_place(path: Path) -> bool:
    """Not every option is the name of files, and not all names are those of whole files."""
    return path.exists() or any(path.parent.glob(f"{path.name}.*"))


class ChildExecutor:
    """Hands on to the process of its model what it is asked."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        weakref.finalize(self, model.close)
        graph, answer = model.graph, model.answer
        tensors = {tensor.name: tensor for op in graph.ops for tensor in op.outputs}
        tensors |= {tensor.name: tensor for tensor in graph.inputs}
        self.name = str(answer["name"])
        self.inputs: tuple[Tensor, ...] = tuple(tensors[name] for name in answer["inputs"])
        self.tensors: tuple[str, ...] = tuple(answer["tensors"])
        self.unavailable = _unavailable(answer)

    def run(
        self,
        feeds: Mapping[str, Array],
        wanted: Sequence[str] | None = None,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[tuple[str, Array]]:
        """The values of *wanted*, as the model's own executor gives them."""
        process, model = self._model.opened()
        number = next(process.numbers)
        process.ask("run", number, model, dict(feeds), wanted, memory)
        yield from self._items(process, number)

    def run_subgraphs(
        self,
        subgraphs: Iterable[RunnableSubgraph],
        values: SubgraphValues,
        *,
        memory: int = DEFAULT_MEMORY,
    ) -> Iterator[SubgraphResult]:
        """Run each piece; of those during which the process ended, or the executor failed, each is
        run once more alone, so that one op's trouble is the trouble of its piece only."""
        subgraphs_asked = AskedSubgraphs(subgraphs, values)
        while True:
            try:
                yield from self._results(subgraphs_asked, memory)
            except ModelEndedError as error:
                yield from self._alone(subgraphs_asked, error, memory)
            except BrokenExecutorError as error:
                yield from self._apart(subgraphs_asked, error, memory)
            else:
                return

    def _apart(
        self, subgraphs_asked: AskedSubgraphs, error: BrokenExecutorError, memory: int
    ) -> Iterator[SubgraphResult]:
        """Each piece that was taken and has no result, alone; the process goes on."""
        remaining = subgraphs_asked.taken_again()
        if not remaining:
            raise error  # no piece's trouble: it would come again for ever
        for piece in remaining:
            if len(remaining) == 1:
                yield SubgraphResult(piece.key, {}, str(error))
                continue
            try:
                yield from self._results(AskedSubgraphs([piece], subgraphs_asked.values_of), memory)
            except BrokenExecutorError as own:
                yield SubgraphResult(piece.key, {}, str(own))

    def _alone(
        self, subgraphs_asked: AskedSubgraphs, error: ModelEndedError, memory: int
    ) -> Iterator[SubgraphResult]:
        remaining = subgraphs_asked.taken_again()
        goes_on = self._model.may_go_on()
        if not goes_on:
            remaining += subgraphs_asked.rest()
        for piece in remaining:
            if len(remaining) == 1 or not goes_on:
                yield SubgraphResult(piece.key, {}, str(error))
                continue
            try:
                yield from self._results(AskedSubgraphs([piece], subgraphs_asked.values_of), memory)
            except ModelEndedError as again:
                yield SubgraphResult(piece.key, {}, str(again))
                goes_on = self._model.may_go_on()

    def _results(self, subgraphs_asked: AskedSubgraphs, memory: int) -> Iterator[SubgraphResult]:
        process, model = self._model.opened()
        number = next(process.numbers)
        process.answering(number, subgraphs_asked.answer)
        process.ask("subgraphs", number, model, memory)
        for key, values, failure in self._items(process, number):
            subgraphs_asked.settle(key)
            yield SubgraphResult(key, values, failure)

    def close(self) -> None:
        """Let go of the model."""
        self._model.close()

    def _items(self, process: ModelProcess, number: int) -> Iterator[Any]:
        try:
            while True:
                answer = process.ask("next", number)
                yield from answer["items"]
                if "unavailable" in answer:
                    self.unavailable = _unavailable(answer)
                if "ended" in answer:
                    return
        finally:
            process.drop(number)


class _Adding(ChildExecutor):
    def with_additions(
        self, feeds: Mapping[str, Array], tensors: Sequence[str], outputs: Sequence[str]
    ) -> AdditiveRun:
        """The model on *feeds*, *tensors* open for additions."""
        return self._open("with_additions", dict(feeds), tensors, outputs)

    def _open(self, method: str, *arguments: object) -> ChildAdditiveRun:
        process, model = self._model.opened()
        number = next(process.numbers)
        answer = process.ask("adding", number, model, method, *arguments)
        if answer["makers"] is None:
            return ChildAdditiveRun(process, number, answer)
        return ChildQuantisedRun(process, number, answer)


class _Quantising(_Adding):
    def with_readings(
        self,
        feeds: Mapping[str, Array],
        tensors: Sequence[str],
        outputs: Sequence[str],
        readings: Sequence[QuantisedRead],
    ) -> QuantisedRun:
        """As ``with_additions``, and open for *readings*."""
        run = self._open("with_readings", dict(feeds), tensors, outputs, tuple(readings))
        assert isinstance(run, ChildQuantisedRun)
        return run


class _Altering(ChildExecutor):
    def run_altered(
        self,
        piece: RunnableSubgraph,
        values: Mapping[str, Array],
        tensor: str,
        attrs: Mapping[str, AttrValue],
    ) -> Mapping[str, Array] | None:
        """The piece alone, the op that makes *tensor* changed."""
        return _changed(self._model, "run_altered", piece, dict(values), tensor, dict(attrs))


class _AlteringBodies(ChildExecutor):
    def run_with_body(
        self, piece: RunnableSubgraph, values: Mapping[str, Array], change: BodyChange
    ) -> Mapping[str, Array] | None:
        """The piece alone, an op of a body changed."""
        return _changed(self._model, "run_with_body", piece, dict(values), change)


def _changed(model: _Model, method: str, *arguments: object) -> Mapping[str, Array] | None:
    """What a changed piece gives; None where it does not run."""
    try:
        process, number = model.opened()
        values_or_none = process.ask("values", number, method, *arguments)["values"]
    except ModelEndedError:
        if not model.may_go_on():
            raise
        return None  # changed so, it does not run
    return None if values_or_none is None else dict(values_or_none)


_CAPABILITIES = {
    "Additive": _Adding,
    "Quantising": _Quantising,
    "Alterable": _Altering,
    "AlterableBodies": _AlteringBodies,
}


class ChildAdditiveRun:
    """A run with additions, in the process of the model."""

    def __init__(self, process: ModelProcess, number: int, answer: Mapping[str, Any]) -> None:
        self.tensors: tuple[str, ...] = tuple(answer["tensors"])
        self._process, self._number = process, number
        weakref.finalize(self, process.drop, number)

    def run(self, additions: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs with *additions* added."""
        return self._values("run", dict(additions))

    def _values(self, method: str, *arguments: object) -> Mapping[str, Array]:
        answer = self._process.ask("values", self._number, method, *arguments)
        return dict(answer["values"])


class ChildQuantisedRun(ChildAdditiveRun):
    """As an additive run; and with what ops read quantised."""

    def __init__(self, process: ModelProcess, number: int, answer: Mapping[str, Any]) -> None:
        super().__init__(process, number, answer)
        self.makers: tuple[str, ...] = tuple(answer["makers"])

    def run_quantised(
        self, additions: Mapping[str, Array], exact: Collection[str]
    ) -> Mapping[str, Array]:
        """The outputs, all readings quantised but those of ops *exact*."""
        return self._values("run_quantised", dict(additions), frozenset(exact))


def _unavailable(answer: Mapping[str, Any]) -> tuple[Unavailable, ...]:
    return tuple(Unavailable(tensor, reason) for tensor, reason in answer["unavailable"])
