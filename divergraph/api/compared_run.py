"""A finished comparison: what it says, the questions it answers, what can be made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as dataclass_replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.api.arguments import AnyPath, filter_of, optional_path, root_cause_of, side_of
from divergraph.api.private_store import private_store
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.rows import Rows
from divergraph.text.printable import printable
from divergraph.text.words import counted, verdict_text
from graphstore.entry_names import check_new_name
from graphstore.errors import InputError
from graphstore.filter import OpFilter
from graphstore.model import (
    GUILTY,
    SUSPECT,
    Comparison,
    Counts,
    Finding,
    LineageLink,
    RunAnalysis,
    Side,
    Verdict,
)
from graphstore.model import Run as RunRecord
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx

    from divergraph.api.model_parts import ModelParts, Submodel
    from divergraph.api.store import AnyStore
    from divergraph.api.tensor_values import RunTensors, TensorValues
    from divergraph.ask import (
        OpDetail,
        OriginAnswer,
        Overview,
        RoleTable,
        Trace,
        UnmatchedOps,
    )
    from divergraph.ask.advisor.advisor import Advice
    from divergraph.blame.attribution import Blame
    from divergraph.consistency.checks import ConsistencyReport
    from divergraph.present.run_report import RunReport
    from divergraph.submodel.minimize.minimize_run import Minimized
    from graphstore.contract import GraphStore, RunData

_SHOWN = 5


class ComparedRun:
    """A finished comparison of a golden and a device dump, by its name.

    ``divergraph.compare`` makes one, a store opens one that was kept. Ops are named by their id,
    or by a name that only one op has. All answers are frozen values.

    >>> import divergraph as dg
    >>> run = dg.demo()
    >>> run
    <Run 'demo': diverged, 1 origin>
    >>> run.verdict.value, run.counts.over
    ('diverged', 59)
    """

    def __init__(
        self,
        name: str,
        *,
        store: GraphStore | None = None,
        data: RunData | None = None,
        kept: bool = True,
    ) -> None:
        self._name = name
        self._store = store if kept else None
        self._data = data
        self._kept = kept and store is not None
        self._tensors: RunTensors | None = None

    @property
    def name(self) -> str:
        """Its name, in the store if it was kept."""
        return self._name

    @property
    def kept(self) -> bool:
        """True if it is in the user's store; :meth:`save` keeps it."""
        return self._kept

    @property
    def record(self) -> RunRecord:
        """What the run says of itself: verdict, counts, limits, inputs, version."""
        return self._asked().run(self._name) if self._data is None else self._data.run

    @property
    def verdict(self) -> Verdict:
        """``clean``, ``noise``, ``diverged`` or ``not_compared``."""
        return self.record.verdict

    @property
    def counts(self) -> Counts:
        """How many ops and tensors there are, were compared, and are over a limit."""
        return self.record.counts

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what may spoil the answer."""
        return self.record.warnings

    @property
    def analysis(self) -> RunAnalysis:
        """By which limits, in which precision and with what reference the ops were judged."""
        return self.record.analysis

    @property
    def data(self) -> RunData:
        """Everything of the run: both graphs, lineage, all comparisons; large."""
        if self._data is None:
            self._data = self._asked().run_data(self._name)
        return self._data

    @property
    def origins(self) -> Rows[OriginAnswer]:
        """The ops at which the error starts, the worst first, each with its reason in words.

        >>> import divergraph as dg
        >>> for one in dg.demo().origins:
        ...     print(one.origin.op, one.origin.type)
        LeNet/conv2/Conv2DRelu Conv2D
        """
        return self._origins()[0]

    @property
    def suspects(self) -> Rows[OriginAnswer]:
        """Ops that may be to blame, but for which chance is an explanation, too."""
        return self._origins()[1]

    @property
    def findings(self) -> Rows[Finding]:
        """Causes of origins, and what the consistency checks saw; confidence is 0 to 1."""
        return Rows(Finding, self._asked().findings(self._name))

    def ops(self, where: OpFilter | str | None = None, side: Side | str = "device") -> Rows[OpRow]:
        """The ops of one *side* in execution order; *where* is a filter as of ``ops --where``.

        Raises:
            FilterError: the filter cannot be understood; it says where.

        >>> import divergraph as dg
        >>> for row in dg.demo().ops("state:origin|inherited fused>1"):
        ...     print(row.topo, row.state, row.id)
        64 origin LeNet/conv2/Conv2DRelu
        68 inherited LeNet/fc3/MatMul
        69 inherited LeNet/fc4/MatMul
        70 inherited LeNet/fc5/MatMul
        """
        from divergraph.ask import op_rows

        wanted = filter_of(where)
        return Rows(OpRow, op_rows(self._asked(), self._name, side_of(side), wanted))

    def op(self, op: str, side: Side | str = "device") -> OpDetail:
        """Everything about one op: attributes, inputs, outputs, comparisons, why its state.

        Raises:
            UnknownNameError: no such op; ``near`` has close ones.
        """
        from divergraph.ask import op_detail

        return op_detail(self._asked(), self._name, op, side_of(side))

    def tensors(self) -> Rows[Comparison]:
        """One row a device tensor: its metrics, or the reason why it was not compared."""
        return Rows(Comparison, self._asked().comparisons(self._name))

    def tensor(
        self,
        op: str,
        output: int = 0,
        *,
        input: int | None = None,  # noqa: A002 - the field's word
        progress: ProgressOption = None,
    ) -> TensorValues:
        """The values of an output (or *input*) of a device op, device and golden side by side.

        Both arrays have golden's shape and order of axes, each side its own dtype; they may be
        read-only. Reads the dumps, which must lie where they were.

        Raises:
            UnknownNameError: no such op.
            InputError: this tensor has no counterpart or was not dumped, or files are gone.

        >>> import divergraph as dg
        >>> values = dg.demo().tensor("LeNet/conv2/Conv2DRelu")
        >>> values
        <LeNet/conv2/Conv2DRelu output 0: float32[2, 14, 14, 16]>
        >>> bool((values.device == values.golden).all())
        False
        """
        from divergraph.api.tensor_values import RunTensors
        from divergraph.ask import resolve_op

        op_id = resolve_op(self._asked(), self._name, op)
        if self._tensors is None:
            with telling(progress) as told:
                self._tensors = RunTensors(self.data, told)
        return self._tensors.values(op_id, output if input is None else input, input is None)

    def trace(self, op: str | None = None, *, to: str | None = None) -> Trace:
        """Where the error of *op* (default: the first origin) goes, down to the outputs.

        Raises:
            UnknownNameError: no such op.
            InputError: there is no origin to start from, or no way leads *to* that op.

        >>> import divergraph as dg
        >>> dg.demo().trace().over
        59
        """
        from divergraph.ask import trace

        return trace(self._asked(), self._name, op, to=to)

    def roles(self, where: OpFilter | str | None = None, *, order: str = "topo") -> RoleTable:
        """What each op does to the error: makes, carries, enlarges or lessens it.

        *order* is ``topo``, or the largest ``suspicion``, ``introduced``, ``propagated`` or
        ``amplification`` first. Without a root-cause analysis the table is empty.
        """
        from divergraph.ask import roles

        return roles(self._asked(), self._name, filter_of(where), order=order)

    def lineage(self, op: str) -> Rows[LineageLink]:
        """The originals a device op was made of, or where a golden op went."""
        from divergraph.ask import lineage

        return Rows(LineageLink, lineage(self._asked(), self._name, op))

    def unmatched(self) -> UnmatchedOps:
        """The ops of both sides without a counterpart, and why."""
        from divergraph.ask import unmatched

        return unmatched(self._asked(), self._name)

    def between(self, start: str, end: str) -> Rows[OpRow]:
        """The device ops on any way from *start* to *end*, both included."""
        from divergraph.ask import ops_between

        return Rows(OpRow, ops_between(self._asked(), self._name, [start], [end]))

    def overview(self) -> Overview:
        """The run at a glance: counts of states, worst ops, modules, the curve of cosines."""
        from divergraph.ask import overview

        return overview(self._asked(), self._name)

    def advise(self) -> Advice:
        """What the run shows as a whole, and what to do next; the first finding counts most."""
        from divergraph.ask.advisor.advisor import advise

        return advise(self.data)

    def consistency(
        self, against: AnyPath | None = None, *, progress: ProgressOption = None
    ) -> ConsistencyReport:
        """Checks of the device's dump by itself, or *against* a second dump of the same graph."""
        from divergraph.api.consistency import consistency_of_run

        return consistency_of_run(self.record, self._asked(), against, progress)

    def analyse(
        self,
        *,
        suspect: float = SUSPECT,
        guilty: float = GUILTY,
        precision: str = "auto",
        memory: int = 1024,
        progress: ProgressOption = None,
    ) -> ComparedRun:
        """The run with its root cause found once more, by these limits; kept if this one is.

        Arguments are those of ``compare``. Models and dumps must lie where they were.

        Raises:
            InputError: files are gone or others, or limits contradict each other.
            ExecutionError: the golden model cannot be run here.
        """
        from divergraph.api.compare import analysed

        options = root_cause_of(suspect, guilty, precision, memory)
        with telling(progress) as told:
            if self._kept:
                data = analysed(self._asked(), self._name, options, told)
                return ComparedRun(self._name, store=self._asked(), data=data)
            return ComparedRun(self._name, data=analysed(self.data, self._name, options, told))

    def blame(
        self,
        others: Sequence[ComparedRun] = (),
        *,
        top: int = 10,
        outputs: Sequence[str] = (),
        memory: int = 1024,
        progress: ProgressOption = None,
    ) -> Blame:
        """Which ops made the error of the golden model's outputs, and which to keep exact.

        *others* are runs of the same models on other inputs; *top* ops are kept at most;
        *outputs* are golden tensors to explain instead of the model's; *memory* in MiB.
        The shares are kept with the run.

        Raises:
            InputError: files are gone, or no output was compared.
            ExecutionError: the golden model cannot be run here.
        """
        from divergraph.api.blame import blamed

        options = root_cause_of(SUSPECT, GUILTY, "auto", memory)
        with telling(progress) as told:
            mine, more = self.data, [other.data for other in others]
            found, data = blamed(mine, options, top, tuple(outputs), told, more)
            self._replace(data)
        return found

    def keep_list(self, blame: Blame, form: str) -> tuple[str, ...]:
        """The ops of *blame* to keep in higher precision, as lines of another tool's file.

        *form* is ``keep_dtype`` or ``customize_dtypes`` (ATC), or ``block_list``
        (onnxconverter-common).
        """
        from divergraph.api.blame import keep_list

        return keep_list(self.data, blame, form)

    def halved_constants(self, blame: Blame) -> tuple[str, ...]:
        """The Constant nodes that a converter makes halves of all the same, though a node of
        the block list reads them: make initializers of them first."""
        from divergraph.api.blame import halved_constants

        return tuple(halved_constants(self.data, blame))

    def parts(self) -> ModelParts:
        """What chooses and writes parts of the golden model, step by step."""
        from divergraph.api.model_parts import ModelParts

        return ModelParts(self.data)

    def submodel(
        self,
        starts: Sequence[str] = (),
        ends: Sequence[str] = (),
        output: AnyPath | None = None,
        *,
        form: str | None = None,
        check: bool = False,
        whole: bool = False,
        all_outputs: bool = False,
        smallest: bool = False,
        model: AnyPath | None = None,
        weights: AnyPath | None = None,
        progress: ProgressOption = None,
    ) -> Submodel:
        """The part of the model from the ops *starts* to the ops *ends*, both included.

        Written with its data into a new folder below *output*, if that is given, and run once
        with *check*. *form* is ``onnx``, ``tf``, ``caffe`` or ``ge``; default: the golden
        model's own. *whole* adds the rest of a fused op or loop; *smallest* starts where the
        fewest bytes go in. *model* and *weights* say where files lie now, if elsewhere.

        Raises:
            UnknownNameError: no such op.
            InputError: files are gone, or the form is not that of the model.
        """
        with telling(progress) as told:
            parts = self.parts()
            parts.open(told, model=optional_path(model))
            return parts.cut(
                starts,
                ends,
                optional_path(output),
                form=form,
                check=check,
                whole=whole,
                all_outputs=all_outputs,
                smallest=smallest,
                weights=optional_path(weights),
                progress=told,
            )

    def minimize(
        self,
        oracle: str = "auto",
        output: AnyPath | None = None,
        *,
        starts: Sequence[str] = (),
        ends: Sequence[str] = (),
        budget: int | None = None,
        seconds: float | None = None,
        timeout: float = 600.0,
        jobs: int = 1,
        flaky: bool = False,
        variant: str = "auto",
        factor: float = 3.0,
        model: AnyPath | None = None,
        weights: AnyPath | None = None,
        fresh: bool = False,
        progress: ProgressOption = None,
    ) -> Minimized:
        """The smallest parts of the golden model that still fail, found by trying.

        *oracle* says whether a part fails: ``evidence``, ``device-model[:FILE]``,
        ``stand-in:fp16|int8|optimized``, ``command:'PROGRAM {bundle}'``. The search stops after
        *budget* calls of it or *seconds*; one call of a program takes *timeout* seconds at most,
        *jobs* run at the same time. *variant* is what parts are fed: ``golden``, ``device`` or
        ``auto``; *factor* noise floors an output may be off. Bundles of what was found go below
        *output*. The result is kept with the run.

        Raises:
            InputError: no oracle fits, or files are gone.
            ExecutionError: the oracle cannot run models here.
        """
        from divergraph.api.model_parts import minimize_request, with_search

        request = minimize_request(
            oracle, starts, ends, variant, budget, seconds, jobs, flaky, timeout, factor,
            optional_path(output), optional_path(weights), fresh,
        )  # fmt: skip
        with telling(progress) as told:
            parts = self.parts()
            parts.open(told, model=optional_path(model))
            found = parts.minimize(request, told)
            if not found.clean:
                self._replace(with_search(self.data, found))
        return found

    def save(
        self, store: AnyStore, name: str | None = None, *, replace: bool = False
    ) -> ComparedRun:
        """Keep the run in *store*, under *name* or its own; the kept run.

        Raises:
            NameTakenError: there is a run or graph of this name, and not *replace*.
            StoreError: the store cannot be written.

        >>> import divergraph as dg
        >>> dg.demo().save("runs", "lenet").kept
        True
        """
        from divergraph.api.store import opened_for_keeping

        chosen = name or self._name
        check_new_name(chosen)
        data = self.data
        data = dataclass_replace(data, run=dataclass_replace(data.run, name=chosen))
        target = opened_for_keeping(store)
        target.save_run(data, replace=replace)
        return ComparedRun(chosen, store=target, data=data)

    def report(self, path: AnyPath, kind: str | None = None) -> Path:
        """Write the run down; *kind* is ``csv``, ``html``, ``junit``, ``markdown`` or ``parquet``.

        Without *kind* the ending says it: .csv, .html, .xml, .md, .parquet.

        Raises:
            InputError: no kind has this ending, or the file cannot be written.
        """
        from divergraph.present.destination import ReportKind, ReportPlaces

        place = Path(path)
        chosen = kind or _REPORTS.get(place.suffix.lower(), "")
        if chosen not in list(ReportKind):
            raise InputError(
                f"no report is called {chosen or place.suffix!r}",
                where=str(place),
                hint=f"kind= one of {', '.join(ReportKind)}, or a file ending in "
                f"{', '.join(_REPORTS)}",
            )
        places = ReportPlaces({ReportKind(chosen): place})
        places.check()
        places.write(self._report(), lambda: self.data)
        return place

    def export(self, path: AnyPath, side: Side | str = "device") -> Path:
        """Write ops and answers as ``.json``, ``.csv`` or ``.graphml``, by the ending of *path*."""
        from divergraph.present.export_file import export

        export(self._asked(), self._name, Path(path), side_of(side))
        return Path(path)

    def to_networkx(self, side: Side | str = "device") -> networkx.MultiDiGraph[str]:
        """One side as a networkx graph: ops with states and metrics, edges with tensors.

        >>> import divergraph as dg
        >>> graph = dg.demo().to_networkx()
        >>> graph.nodes["LeNet/conv2/Conv2DRelu"]["state"]
        'origin'
        """
        from divergraph.present.networkx_graph import to_networkx

        return to_networkx(self._asked(), self._name, side_of(side))

    def _asked(self) -> GraphStore:
        """The store the questions are asked of: the user's, else one of our own."""
        if self._store is None:
            assert self._data is not None
            self._store = private_store(self)
            self._store.save_run(self._data)
        return self._store

    def _replace(self, data: RunData) -> None:
        """Keep the run with what was found since, wherever it is kept."""
        self._data = data
        if self._store is not None:
            self._store.save_run(data, replace=True)

    def _origins(self) -> tuple[Rows[OriginAnswer], Rows[OriginAnswer]]:
        from divergraph.ask import OriginAnswer, origins

        answer = origins(self._asked(), self._name)
        return Rows(OriginAnswer, answer.origins), Rows(OriginAnswer, answer.suspects)

    def _report(self) -> RunReport:
        from divergraph.present.run_report import stored_report

        return stored_report(self._asked(), self._name, self._data)

    def __repr__(self) -> str:
        count = "" if self.verdict is not Verdict.DIVERGED else f", {self._origin_count()}"
        return f"<Run {self._name!r}: {self.verdict.value}{count}>"

    def _origin_count(self) -> str:
        found = self._asked().origins(self._name) if self._data is None else self._data.origins
        return counted(len(found), "origin")

    def _repr_html_(self) -> str:
        run, counts = self.record, self.counts
        facts: Mapping[str, str] = {
            "verdict": verdict_text(run),
            "ops": str(counts.ops),
            "tensors": f"{counts.tensors}: {counts.compared} compared, {counts.over} over a limit",
            "starts at": ", ".join(one.origin.op for one in self.origins[:_SHOWN]),
        }
        lines = (
            f"<tr><th>{escape(name)}</th><td>{escape(printable(text))}</td></tr>"
            for name, text in facts.items()
            if text
        )
        return (
            f"<table><caption>{escape(printable(run.name))}</caption><tbody>"
            f"{''.join(lines)}</tbody></table>"
        )


_REPORTS = {
    ".csv": "csv", ".html": "html", ".xml": "junit", ".md": "markdown", ".parquet": "parquet",
}  # fmt: skip
