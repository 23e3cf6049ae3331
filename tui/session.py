"""What is open: the store, the run, cached answers and the places visited. Independent of the
screen. The methods that ask the store block; views call them in threads, and one lock lets one
question at a time reach the store."""

from __future__ import annotations

import gc
import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from graphstore.errors import DivergraphError, StoreError
from graphstore.model import Side
from tui.jumps import JumpList
from tui.render.part_marks import MarkHistory
from tui.tensors import OpenedTensors

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from divergraph.ask.answers import OpDetail, Overview
    from divergraph.ask.questions.compare_runs import RunChanges
    from divergraph.ask.trace_answers import Trace
    from divergraph.present.pictures.metric_curve import MetricCurve
    from graphstore.cancellation import Cancellation
    from graphstore.columns.op_columns import OpColumns
    from graphstore.contract import GraphInfo, GraphStore, QueryResult
    from graphstore.cypher.user_question import CypherQuestion
    from graphstore.filter import OpFilter
    from graphstore.model import Note, Run, TensorIO
    from tui.ladder import Ladders
    from tui.part_chooser import PartChooser
    from tui.tensors import TensorLook
    from tui.widgets.curve_ops import ChartField

T = TypeVar("T")
DETAILS_KEPT = 256
TRACES_KEPT = 16


class Session:
    """One open store and what is being looked at in it."""

    def __init__(self, connect: Callable[[], GraphStore], url: str) -> None:
        self.url = url
        self.target = ""
        self.kind = "run"
        self.jumps = JumpList()
        self.commands: list[str] = []
        self._connect = connect
        self._store: GraphStore | None = None
        self._closed = False
        self._lock = threading.RLock()
        self._overviews: dict[str, Overview] = {}
        self._advice: dict[str, Advice] = {}
        self._rows: dict[str, OpColumns] = {}
        self._details: dict[tuple[str, str], OpDetail] = {}
        self._traces: dict[tuple[str, str], Trace] = {}
        self._choosers: dict[str, PartChooser] = {}
        self._ladders: dict[str, Ladders] = {}
        self._tensors: dict[str, OpenedTensors] = {}
        self._marks: dict[str, MarkHistory] = {}
        self._writings: dict[str, int] = {}
        self._wanted_query: tuple[str, str] | None = None
        self.last_op = ""

    def targets(self) -> tuple[list[Run], list[GraphInfo]]:
        """Runs and imported graphs, newest first."""
        with self._lock:
            store = self._open()
            return store.runs()[::-1], store.graphs()[::-1]

    def delete(self, name: str) -> None:
        """Remove a run or imported graph; nothing of it is remembered."""
        with self._lock:
            self._open().delete(name)
            self._forget(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name."""
        with self._lock:
            self._open().rename(name, new_name)
            self._forget(name)

    def renewed(self, name: str) -> None:
        """A run or graph was written anew, by another process: nothing known of it holds."""
        with self._lock:
            self.reopen()  # the store keeps what it has read of a graph, too
            self._drop(name)
            self._writings[name] = self._writings.get(name, 0) + 1

    @property
    def stamp(self) -> str:
        """What is looked at, and in which of its writings; empty for nothing."""
        return f"{self.target} {self._writings.get(self.target, 0)}" if self.target else ""

    def _forget(self, name: str) -> None:
        self._drop(name)
        if self.target == name:
            self.target = ""

    def _drop(self, name: str) -> None:
        views = (self._choosers, self._ladders, self._tensors)
        for cache in (self._overviews, self._advice, self._rows, *views):
            cache.pop(name, None)
        for by_op in (self._details, self._traces):
            for place in [place for place in by_op if place[0] == name]:
                by_op.pop(place, None)

    def changes(self, old: str, new: str) -> RunChanges:
        """What changed from one run to another."""
        from divergraph.ask.questions.compare_runs import ChangesQuestion

        with self._lock:
            return ChangesQuestion(old, new).ask(self._open())

    def known_overview(self) -> Overview | None:
        """The run at a glance if that was asked for already, without asking the store."""
        return self._overviews.get(self.target)

    def first_look(self) -> Overview:
        """What the record of the run says at once; see ``divergraph.ask.overview_answers``."""
        from divergraph.ask.overview_answers import first_look

        with self._lock:
            return first_look(self._open(), self.target)

    def overview(self) -> Overview:
        """The run at a glance."""
        from divergraph.ask.overview_answers import overview

        return self._remembered(self._overviews, lambda: overview(self._open(), self.target))

    def curve(self, metric: str, where: str = "") -> MetricCurve:
        """The curve of a metric of the run, of the ops that the filter *where* takes."""
        from divergraph.present.pictures.metric_curve import metric_curve
        from graphstore.filter import parse_filter

        with self._lock:
            return metric_curve(self._open(), self.target, metric, [parse_filter(where)])

    def next_curve(self, shown: str, places: int, where: str = "") -> MetricCurve:
        """The curve of the metric so many places behind *shown*, of those that the run has."""
        from divergraph.present.pictures.metric_curve import PLOTTED

        metrics = list(PLOTTED)
        while True:
            shown = metrics[(metrics.index(shown) + places) % len(metrics)]
            curve = self.curve(shown, where)
            if len(curve) or curve.is_cosine:
                return curve

    def narrowed_curve(
        self, metric: str, field: ChartField, chosen: Mapping[ChartField, str]
    ) -> tuple[MetricCurve, Mapping[ChartField, str]]:
        """The curve of the next op type or state that has ops on it, behind the last of all ops,
        and what is chosen then."""
        from tui.widgets.curve_ops import chart_filter

        rows = self.rows()
        counts = (rows.types if field == "type" else rows.states).counted()
        values = ["", *sorted((str(value) for value in counts if value), key=str.casefold)]
        at = values.index(chosen.get(field, ""))
        while True:
            at = (at + 1) % len(values)
            narrowed = {**chosen, field: values[at]}
            curve = self.curve(metric, chart_filter(narrowed))
            if len(curve) or not values[at]:
                return curve, narrowed

    def advice(self) -> Advice:
        """What to do about the run."""
        from divergraph.ask.advisor.advisor import stored_advice

        return self._remembered(
            self._advice, lambda: stored_advice(self._open(), self.target), only=True
        )

    def rows(self) -> OpColumns:
        """All ops of the device graph of the run, or of the imported graph, in topo order."""
        from divergraph.ask.facts import load_facts

        return self._remembered(self._rows, lambda: load_facts(self._open(), self.target).rows)

    def read_attributes(self, ops: OpColumns, wanted: OpFilter) -> bool:
        """Read what *wanted* asks of attributes; False if *ops* are no longer :meth:`rows`."""
        from divergraph.ask.op_attributes import read_attributes

        with self._lock:
            if self._rows.get(self.target) is not ops:
                return False
            read_attributes(self._open(), self.target, ops, (wanted,))
            return True

    def detail(self, op: str) -> OpDetail:
        """Everything about one op."""
        from divergraph.ask.details import op_detail

        with self._lock:
            place = (self.target, op)
            if place not in self._details:
                if len(self._details) >= DETAILS_KEPT:
                    self._details.pop(next(iter(self._details)))
                self._details[place] = op_detail(self._open(), self.target, op)
            return self._details[place]

    def add_note(self, op: str, text: str) -> Note:
        """Keep a note on an op of the run's model."""
        from divergraph.ask.memory.authors import author_name
        from divergraph.ask.memory.notes import add_note

        with self._lock:
            self._details.pop((self.target, op), None)
            return add_note(self._open(), self.target, op, text, author_name())

    def trace(self, op: str) -> Trace:
        """The paths of the error of *op*, or of the first origin if it is empty."""
        from divergraph.ask.traces import trace

        with self._lock:
            place = (self.target, op)
            if place not in self._traces:
                if len(self._traces) >= TRACES_KEPT:
                    self._traces.pop(next(iter(self._traces)))
                self._traces[place] = trace(self._open(), self.target, op or None)
                self.rest()
            return self._traces[place]

    def chooser(self) -> PartChooser:
        """What chooses parts of the run or graph; that of the last one only is kept."""
        from divergraph.ask.model_parts import ModelParts
        from tui.part_chooser import GraphPartChooser, PartChooser

        def make() -> PartChooser:
            alone = self.kind == "graph"
            find = ModelParts.of_graph if alone else ModelParts.stored
            parts = find(self.asked, self.target)
            parts.prepare()
            return (GraphPartChooser if alone else PartChooser)(parts, self.rows())

        return self._remembered(self._choosers, make, only=True)

    def asked(self, question: Callable[[GraphStore], T]) -> T:
        """The store's answer to a question."""
        with self._lock:
            return question(self._open())

    def ladders(self) -> Ladders:
        """Both graphs of the run and the links between them; those of the last target are kept."""
        from tui.ladder import ladders_of

        return self._remembered(
            self._ladders,
            lambda: ladders_of(self._open(), self.target, self.kind, self.rows()),
            only=True,
        )

    def tensor(self, op: str, io: TensorIO, port: int) -> TensorLook:
        """What one tensor of the run looks like; the dumps of the last run only stay open."""
        from divergraph.ask.tensor_values import RunTensors, ServedTensors, opened_tensors
        from divergraph.jobs.progress import NO_PROGRESS

        with self._lock:
            if self.target not in self._tensors:
                target = self.target

                def open_them() -> RunTensors | ServedTensors:
                    return opened_tensors(self.asked, target, NO_PROGRESS)

                self._tensors = {target: OpenedTensors(open_them)}
            opened = self._tensors[self.target]
        return opened.look(op, io, port)

    def _remembered(self, cache: dict[str, T], make: Callable[[], T], *, only: bool = False) -> T:
        """What *cache* has of the target, made now if it has nothing; *only* that is kept."""
        with self._lock:
            if self.target not in cache:
                answer = make()
                if only:
                    cache.clear()
                cache[self.target] = answer
                self._settle()
            return cache[self.target]

    def rest(self) -> None:
        """After much was done: let go of what only that needed."""
        with self._lock:
            self._open().rest()

    def _settle(self) -> None:
        """After much was read: let go of what only the reading needed."""
        self.rest()
        gc.freeze()  # or the collector walks all that was read again and again while keys wait

    def cypher(
        self, question: CypherQuestion, cancellation: Cancellation
    ) -> tuple[QueryResult, float]:
        """The answer of a question of the user's own, and the milliseconds it took."""
        with self._lock:
            store, begin = self._open(), time.perf_counter()
            return question.answer(store, cancellation), 1000 * (time.perf_counter() - begin)

    def cypher_plan(self, question: CypherQuestion, cancellation: Cancellation) -> str:
        """How such a question would be answered."""
        with self._lock:
            return question.plan(self._open(), cancellation)

    def device_ops(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of *names* that are ops on screen; if none is, the device ops made of them."""
        with self._lock:
            store = self._open()
            ops = store.ops(self.target, names)
            if ops or self.kind == "graph":
                return tuple(name for name in names if name in ops)
            originals = store.ops(self.target, names, Side.GOLDEN)
            links = (store.links(self.target, name, Side.GOLDEN) for name in originals)
            return tuple(
                dict.fromkeys(link.device for lineage_link in links for link in lineage_link)
            )

    def ask_query(self, name: str, op: str) -> None:
        """Have the view of queries show the named query *name*, about *op*."""
        self._wanted_query = name, op

    def take_query(self) -> tuple[str, str] | None:
        """The query that is to be shown, once."""
        wanted, self._wanted_query = self._wanted_query, None
        return wanted

    def search(self) -> dict[str, Any]:
        """What the last search for the run's minimal failing parts found, as ``minimize --json``
        prints it; empty if there was none, and of a graph, with which none is kept."""
        if self.kind == "graph":
            return {}
        with self._lock:
            minimized = self._open().run(self.target).analysis.minimized
        return json.loads(minimized) if minimized else {}

    @property
    def marks(self) -> MarkHistory:
        """Where the user marked starts and ends of a part of the run."""
        return self._marks.setdefault(self.target, MarkHistory())

    def reopen(self) -> None:
        """Let go of the store; the next question opens it anew. Answers at hand are kept."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                with suppress(DivergraphError):  # it may be gone, which is why it is let go
                    store.close()

    @property
    def store_name(self) -> str:
        """The store as the title line names it."""
        return self.url or "store"

    def known_rows(self) -> OpColumns | None:
        """The ops if they were asked for already, without asking the store."""
        return self._rows.get(self.target)

    def known_origins(self) -> tuple[str, ...] | None:
        """The origins' ids in execution order; None while the run is not loaded."""
        overview = self._overviews.get(self.target)
        if overview is None:
            return None
        rows = sorted(overview.origin_rows, key=lambda row: row.topo)
        return tuple(row.id for row in rows)

    def origin_from(self, topo: int, direction: int) -> str | None:
        """The first origin (direction 0), or the one after (1) or before (-1) *topo*."""
        overview = self._overviews.get(self.target)
        rows = () if overview is None else sorted(overview.origin_rows, key=lambda row: row.topo)
        if direction < 0:
            return next((row.id for row in reversed(rows) if row.topo < topo), None)
        after = topo if direction > 0 else -1
        return next((row.id for row in rows if row.topo > after), None)

    def look_at(self, target: str, kind: str) -> None:
        """Look at another run or graph."""
        self.target, self.kind = target, kind

    def note(self, command: str, *arguments: str) -> None:
        """Keep the shell command that shows the same as the screen."""
        words = ["divergraph", command, *arguments]
        if self.url:
            words += ["--store", self.url]
        line = shlex.join(words)
        if not self.commands or self.commands[-1] != line:
            self.commands.append(line)

    def close(self) -> bool:
        """Close the store for good; False, at once, if a question is still running."""
        self._closed = True
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._store is not None:
                self._store.close()
                self._store = None
        finally:
            self._lock.release()
        return True

    def _open(self) -> GraphStore:
        if self._closed:
            raise StoreError("the store was closed")
        if self._store is None:
            self._store = self._connect()
        return self._store
