"""The questions a finished comparison answers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.api.arguments import AnyPath, filter_of, side_of
from divergraph.api.private_store import private_store
from divergraph.api.progress import ProgressOption, telling
from divergraph.api.rows import Rows
from divergraph.api.runs.run_pictures import ComparedTensor, RunPictures
from divergraph.text.printable import printable
from divergraph.text.words import answers_text, counted, verdict_text
from graphstore.filter import OpFilter
from graphstore.model import (
    Comparison,
    Counts,
    Finding,
    LineageLink,
    Reckoning,
    RunAnalysis,
    RunBlame,
    RunResult,
    Side,
    Verdict,
)
from graphstore.model import Run as RunRecord
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx
    import pandas
    import polars
    import pyarrow as pa

    from divergraph.ask.advisor.advisor import Advice
    from divergraph.ask.answers import OpDetail, Overview
    from divergraph.ask.origin_answers import OriginAnswer
    from divergraph.ask.questions.roles import RoleTable
    from divergraph.ask.questions.unmatched import UnmatchedOps
    from divergraph.ask.tensor_values import RunTensors, ServedTensors
    from divergraph.ask.trace_answers import Trace
    from divergraph.consistency.checks import ConsistencyReport
    from graphstore.contract import GraphStore, RunData

_SHOWN = 5


class RunAnswers(RunPictures):
    """A run by its name, in a store or by itself, and the questions about it.

    Ops are named by their id, or by a name that only one op has. All answers are frozen values.
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
        self._tensors: RunTensors | ServedTensors | None = None

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
        """The run's own record: verdict, counts, limits, inputs, version."""
        return self._asked().run(self._name) if self._data is None else self._data.run

    @property
    def verdict(self) -> Verdict:
        """The verdict; :attr:`result` and :attr:`blamed` are the two answers it sums up."""
        return self.record.verdict

    @property
    def result(self) -> RunResult:
        """Whether the model's outputs, or parts of them, are damaged, and how."""
        return self.record.result

    @property
    def blamed(self) -> RunBlame:
        """Who is to blame: ops, inputs, layout, the device's arithmetic, nobody, or not known."""
        return self.record.blame

    @property
    def counts(self) -> Counts:
        """How many ops and tensors there are, were compared, and are over a limit."""
        return self.record.counts

    @property
    def files(self) -> dict[str, Path]:
        """The models and dumps it was made of: golden, golden_dump, device and device_dump.

        Raises:
            InputError: one of them is not there any more.
        """
        from divergraph.inputs.kept_paths import FILES, kept_path

        return {what: kept_path(self.record, what) for what in FILES}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what may make the answers less reliable."""
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
        """Ops that may be to blame, but whose error may be chance."""
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
        from divergraph.ask.facts import op_rows

        wanted = filter_of(where)
        return Rows(OpRow, op_rows(self._asked(), self._name, side_of(side), wanted))

    def op(self, op: str, side: Side | str = "device") -> OpDetail:
        """Everything about one op: attributes, inputs, outputs, comparisons, why its state.

        Raises:
            UnknownNameError: no such op; ``near`` has close ones.
        """
        from divergraph.ask.details import op_detail

        return op_detail(self._asked(), self._name, op, side_of(side))

    def tensors(self) -> Rows[Comparison]:
        """One row per device tensor: its metrics, or the reason why it was not compared."""
        return Rows(Comparison, self._asked().comparisons(self._name))

    def tensor(
        self,
        op: str,
        output: int = 0,
        *,
        input: int | None = None,  # noqa: A002 - the field's word
        progress: ProgressOption = None,
    ) -> ComparedTensor:
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
        from divergraph.ask.facts import resolve_op
        from divergraph.ask.tensor_values import RunTensors, opened_tensors

        op_id = resolve_op(self._asked(), self._name, op)
        if self._tensors is None:
            with telling(progress) as reporting:
                if self._data is not None or not self._kept:
                    self._tensors = RunTensors(self.data, reporting)
                else:
                    store = self._asked()
                    self._tensors = opened_tensors(lambda ask: ask(store), self._name, reporting)
        port = output if input is None else input
        return ComparedTensor.of(self._tensors.values(op_id, port, input is None))

    def trace(self, op: str | None = None, *, to: str | None = None) -> Trace:
        """Where the error of *op* (default: the first origin) goes, down to the outputs.

        Raises:
            UnknownNameError: no such op.
            InputError: there is no origin to start from, or no path leads *to* that op.

        >>> import divergraph as dg
        >>> dg.demo().trace().over
        59
        """
        from divergraph.ask.traces import trace

        return trace(self._asked(), self._name, op, to=to)

    def roles(self, where: OpFilter | str | None = None, *, order: str = "topo") -> RoleTable:
        """What each op does to the error: makes, carries, increases or reduces it.

        *order* is ``topo``, or the largest ``suspicion``, ``introduced``, ``propagated`` or
        ``amplification`` first. Without a root-cause analysis the table is empty.
        """
        from divergraph.ask.questions.roles import role_table

        return role_table(self._asked(), self._name, filter_of(where), order=order)

    def explain(self) -> Rows[Reckoning]:
        """How suspicions were reckoned, step by step: error, emulation, floor, each tolerance.

        Of all outputs over half the limit of suspects, the most suspicious first.
        """
        return Rows(Reckoning, self.analysis.reckonings)

    def lineage(self, op: str) -> Rows[LineageLink]:
        """The originals a device op was made of, or where a golden op went."""
        from divergraph.ask.details import lineage

        return Rows(LineageLink, lineage(self._asked(), self._name, op))

    def unmatched(self) -> UnmatchedOps:
        """The ops of both sides without a counterpart, and why."""
        answer: UnmatchedOps = self.ask("unmatched")
        return answer

    def between(self, start: str, end: str) -> Rows[OpRow]:
        """The device ops on any way from *start* to *end*, both included."""
        from divergraph.ask.traces import ops_between

        return Rows(OpRow, ops_between(self._asked(), self._name, start, end))

    def overview(self) -> Overview:
        """The run at a glance: counts of states, worst ops, modules, the curve of cosines."""
        from divergraph.ask.overview_answers import overview

        return overview(self._asked(), self._name)

    def advise(self) -> Advice:
        """A summary of the run, and what to do next; the first finding is the most important."""
        from divergraph.ask.advisor.advisor import stored_advice

        return stored_advice(self._asked(), self._name)

    def consistency(
        self, against: AnyPath | None = None, *, progress: ProgressOption = None
    ) -> ConsistencyReport:
        """Checks of the device's dump by itself, or *against* a second dump of the same graph."""
        from divergraph.api.consistency import consistency_of_run

        return consistency_of_run(self.record, self._asked(), against, progress)

    def to_arrow(self) -> pa.Table:
        """The device's ops as ``pyarrow.Table``: what ``ops().to_arrow()`` gives."""
        return self.ops().to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """The device's ops as ``pandas.DataFrame``.

        Raises:
            InputError: pandas is not installed.
        """
        return self.ops().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The device's ops as ``polars.DataFrame``.

        Raises:
            InputError: polars is not installed.
        """
        return self.ops().to_polars()

    def to_networkx(self, side: Side | str = "device") -> networkx.MultiDiGraph[str]:
        """One side as a networkx graph: ops with states and metrics, edges with tensors.

        >>> import divergraph as dg
        >>> graph = dg.demo().to_networkx()
        >>> graph.nodes["LeNet/conv2/Conv2DRelu"]["state"]
        'origin'
        """
        from divergraph.present.networkx_graph import to_networkx

        return to_networkx(self._asked(), self._name, side_of(side))

    def _own_parameters(self) -> Mapping[str, object]:
        return {"run": self._name}

    def _asked(self) -> GraphStore:
        """The store the questions are asked of: the user's, else a temporary one."""
        if self._store is None:
            assert self._data is not None
            self._store = private_store(self)
            self._store.save_run(self._data)
        return self._store

    def _origins(self) -> tuple[Rows[OriginAnswer], Rows[OriginAnswer]]:
        from divergraph.ask.origin_answers import OriginAnswer, origins

        answer = origins(self._asked(), self._name)
        return Rows(OriginAnswer, answer.origins), Rows(OriginAnswer, answer.suspects)

    def __repr__(self) -> str:
        count = "" if self.verdict is not Verdict.DIVERGED else f", {self._origin_count()}"
        return f"<Run {self._name!r}: {self.verdict.value}{count}>"

    def _origin_count(self) -> str:
        origins = self._asked().origins(self._name) if self._data is None else self._data.origins
        return counted(len(origins), "origin")

    def _repr_html_(self) -> str:
        run, counts = self.record, self.counts
        facts: Mapping[str, str] = {
            "verdict": verdict_text(run),
            **answers_text(run),
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
