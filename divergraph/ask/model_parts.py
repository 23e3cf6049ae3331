"""Parts of a run's model: chosen by structure at once, written once the dumps are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.stored import check_there
from divergraph.submodel.bundle import BundleRequest, graph_of, is_of_device, write_bundle
from divergraph.submodel.check import PartCheck, check_bundle
from divergraph.submodel.device_parts import select_device
from divergraph.submodel.export.contract import PartFormat, own_format, writer_of
from divergraph.submodel.minimize.minimize_run import Minimized, MinimizeRequest, minimize_run
from divergraph.submodel.run_graphs import LinkedGraphs
from divergraph.submodel.run_parts import RunParts, opened
from divergraph.submodel.selection import Refusal, Selection, SelectionRequest
from divergraph.submodel.smallest_boundary import Suggestion, smallest_boundary
from divergraph.submodel.stored_graphs import AskStore, LoneStoredGraph, StoredGraphs, asking
from graphstore.columns.coded import Coded, Int
from graphstore.contract import GraphStore, RunData
from graphstore.errors import DivergraphError, InputError
from graphstore.model import Side

__all__ = ["ModelParts", "Submodel", "asking", "is_graph"]


@dataclass(frozen=True, slots=True)
class Submodel:
    """A part of a model. ``selection.refused`` says why it may not be cut so. ``path`` is the
    folder it was written to, ``check`` the result of running it there; None if that was not asked
    for or the part was refused."""

    selection: Selection
    path: Path | None = None
    check: PartCheck | None = None

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Why it may not be cut so, with what may be cut instead."""
        return self.selection.refused

    def __repr__(self) -> str:
        state = "refused" if self.refused else str(self.path or "not written")
        return f"<Submodel of {len(self.selection.chosen)} ops, {state}>"


class ModelParts:
    """The two graphs of a run, of which parts are chosen; :meth:`open` finds models and dumps.

    Not thread-safe.
    """

    def __init__(
        self, graphs: LinkedGraphs, data: Callable[[], RunData], made_of: str = ""
    ) -> None:
        self._data, self._made_of = data, made_of
        self._graphs = graphs
        self._parts: RunParts | None = None

    @classmethod
    def of(cls, data: RunData, made_of: str = "") -> ModelParts:
        """Those of a run that is whole in memory; *made_of* tells one that no store keeps from
        others."""
        return cls(LinkedGraphs(data), lambda: data, made_of)

    @classmethod
    def stored(cls, ask: AskStore, run: str) -> ModelParts:
        """Those of a run in a store, read as far as choosing needs them; whole once it is opened.

        Raises:
            UnknownNameError: there is no such run.
        """

        def data() -> RunData:
            check_there(ask(lambda store: store.run(run)))  # or all would be read for nothing
            return ask(lambda store: store.run_data(run))

        return cls(StoredGraphs(ask, run), data)

    @classmethod
    def of_graph(cls, ask: AskStore, graph: str) -> ModelParts:
        """Those of a graph imported into a store: they are chosen without its file, and cannot be
        opened."""
        return cls(LoneStoredGraph(ask, graph), _no_run)

    @classmethod
    def of_parts(cls, parts: RunParts) -> ModelParts:
        """Those of a run whose models and dumps are open already."""
        parts_of_model = cls(parts, lambda: parts.data)
        parts_of_model._parts = parts
        return parts_of_model

    @property
    def is_open(self) -> bool:
        """True if models and dumps were found, so that parts can be written."""
        return self._parts is not None

    @property
    def data(self) -> RunData:
        """The whole run."""
        return self._data()

    @property
    def has_dump(self) -> bool:
        """True if tensors of the golden model were dumped."""
        return self._parts is not None and bool(self._parts.sources.golden_dump.files)

    def open(self, progress: Progress = NO_PROGRESS, *, model: Path | None = None) -> None:
        """Find the models and dumps of the run; *model* is where the golden model's file is now.

        Raises:
            InputError: a model or dump is gone, or another one than was compared.
        """
        self._graphs = self._parts = opened(self._data(), progress, model=model)
        self._parts.made_of = self._made_of

    def prepare(self) -> None:
        """Build what the first selection would otherwise have to wait for."""
        graphs = self._graphs
        graphs.selector, graphs.device_selector, graphs.fused  # noqa: B018 - made, and kept there

    def opened_apart(self, progress: Progress) -> ModelParts:
        """These parts with models and dumps open, prepared; this value stays as it is.

        Raises:
            InputError: a model or dump is gone, or another one than was compared.
        """
        data = self._data()
        parts_of_model = ModelParts(LinkedGraphs(data), lambda: data)
        parts_of_model.open(progress)
        parts_of_model.prepare()
        return parts_of_model

    @property
    def form(self) -> str:
        """The form parts are written in: that of the golden model.

        Raises:
            InputError: parts of this framework's models cannot be written.
        """
        return own_format(self._graphs.golden).value

    @property
    def other_model(self) -> str:
        """A sentence if the device's graph may be of another model; else empty."""
        golden, device = self._graphs.golden.name, self._graphs.device.name
        if not golden or not device or golden == device:
            return ""
        return f"the device graph is called {device!r}, the model {golden!r}"

    @property
    def why_not_written(self) -> str:
        """Why parts of this model cannot be written in any form; empty if they can."""
        try:
            own_format(self._graphs.golden)
        except DivergraphError as error:
            return error.what
        return ""

    @property
    def golden_ops(self) -> tuple[Sequence[str], Coded[str]]:
        """Ids and types of the golden ops, in execution order."""
        selector = self._graphs.selector
        return selector.arrays.ids, selector.types

    @property
    def last_standing(self) -> Int:
        """For each of them the number of the last device op that stands for it, -1 for none."""
        return self._graphs.last_standing()

    def first_original(self, device: str) -> str:
        """The first golden op that a device op stands for, in execution order, but for constants;
        empty if it stands for none."""
        return self._graphs.first_original(device)

    @property
    def originals(self) -> Mapping[str, tuple[str, ...]]:
        """The golden ops each device op stands for."""
        return self._graphs.originals

    @property
    def stands_for(self) -> Mapping[str, tuple[str, ...]]:
        """The device ops that stand for each golden op."""
        return self._graphs.stands_for

    def device_ops(self, golden: Sequence[str]) -> tuple[str, ...]:
        """The device ops that stand for any of the ops *golden*, in execution order."""
        return self._graphs.device_ops(golden)

    def golden_ends(self, device: str, *, last: bool) -> tuple[str, ...]:
        """Of the originals of the op *device*, those at its end (*last*) or at its start."""
        return self._graphs.golden_ops(device, last=last, side=Side.DEVICE)

    def select(
        self, starts: Sequence[str], ends: Sequence[str], side: Side | None = None
    ) -> Selection:
        """The part of the golden graph between ops named in the graph of *side*.

        Raises:
            InputError: an op neither graph has, or one that stands for no original.
        """
        wish = SelectionRequest(data=self.is_open)
        return self._graphs.select(starts, ends, wish, side=side)

    def smallest(self, part: Selection) -> Suggestion | None:
        """*part* grown upstream to where the fewest bytes go in; None if it is so already."""
        wish = SelectionRequest(groups=self._graphs.fused, data=self.is_open)
        return smallest_boundary(self._graphs.selector, part, wish)

    def write(
        self, part: Selection, output: Path, *, check: bool, progress: Progress = NO_PROGRESS
    ) -> Submodel:
        """Write *part* into a new folder below *output*; with *check* run it once.

        Raises:
            InputError: it cannot be written.
        """
        return self._written(part, BundleRequest(output), check, progress)

    def cut(
        self,
        starts: Sequence[str],
        ends: Sequence[str],
        output: Path | None = None,
        *,
        form: str | None = None,
        check: bool = False,
        whole: bool = False,
        all_outputs: bool = False,
        smallest: bool = False,
        weights: Path | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Submodel:
        """The part between ops, as of ``ComparedRun.submodel``; needs :meth:`open` to write it."""
        if check and output is None:
            raise InputError("check= needs something to run", hint="say where to write: output=")
        parts, wanted = self._graphs, self._format(form)
        if output is not None:
            self._opened()
            writer_of(wanted, graph_of(parts, wanted))  # said before the work is done
        wish = SelectionRequest(whole=whole, all_outputs=all_outputs, data=output is not None)
        if is_of_device(parts, wanted):
            selector, part = parts.device_selector, select_device(parts, starts, ends, wish)
        else:
            selector, part = parts.selector, parts.select(starts, ends, wish)
        better = smallest_boundary(selector, part, wish) if smallest else None
        part = part if better is None else better.selection
        if output is None or part.refused:
            return Submodel(part)
        return self._written(part, BundleRequest(output, wanted, weights), check, progress)

    def minimize(
        self, request: MinimizeRequest | None = None, progress: Progress = NO_PROGRESS
    ) -> Minimized:
        """The smallest parts that still fail; needs :meth:`open`.

        A *progress* that raises ``StoppedError`` in a step ends the search with what it has.

        Raises:
            InputError: no oracle fits.
            ExecutionError: the oracle cannot run models here.
        """
        request = request or MinimizeRequest()
        if request.output is not None:
            own_format(self._graphs.golden)  # fails before the search, not after it
        return minimize_run(self._opened(), request, progress)

    def _written(
        self, part: Selection, request: BundleRequest, check: bool, progress: Progress
    ) -> Submodel:
        progress.stage("writing the bundle")
        written = write_bundle(self._opened(), part, request).path
        if not check:
            return Submodel(part, written)
        progress.stage("running the part again")
        return Submodel(part, written, check_bundle(written))

    def _format(self, form: str | None) -> PartFormat:
        if form is None:
            return own_format(self._graphs.golden)
        try:
            return PartFormat(form)
        except ValueError as error:
            hint = f"one of {', '.join(PartFormat)}"
            raise InputError(f"form={form!r}: not known", hint=hint) from error

    def _opened(self) -> RunParts:
        if self._parts is None:
            raise InputError("models and dumps are not open", hint="call open() first")
        return self._parts


def is_graph(store: GraphStore, name: str) -> bool:
    """Whether *name* is that of an imported graph, or its id."""
    return any(name in (graph.name, graph.id) for graph in store.graphs())


def _no_run() -> RunData:
    raise InputError("a graph has no dumps", hint="a run of it has them")
