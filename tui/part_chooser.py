"""Finds the part between the marks. Independent of widgets; used from threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divergraph.jobs.progress import Progress
from divergraph.text.words import known
from graphstore.columns.coded import Coded, Int
from graphstore.columns.op_columns import OpColumns
from graphstore.errors import DivergraphError
from graphstore.model import Metric, OpState, Side
from tui.render.part_marks import Marks

if TYPE_CHECKING:
    from divergraph.api.answers import (
        Refusal,
        Selection,
        Suggestion,
    )
    from divergraph.ask.model_parts import ModelParts


@dataclass(frozen=True, slots=True)
class PartOp:
    """One op of the list, device or golden; ``cosine`` and ``state`` are those of the device
    op, for a golden op of the last device op that stands for it."""

    id: str
    type: str
    topo: int
    state: OpState | None = None
    cosine: float | None = None
    fused: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PartOps:
    """The ops of one graph in execution order, each made when it is asked for.

    ``measured`` are the device's ops, ``device`` the number of the one whose cosine and state an op
    has there, -1 where none stands for it.
    """

    ids: Sequence[str]
    types: Coded[str]
    measured: OpColumns
    device: Int
    fused: Int

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> PartOp:
        op, kind, number = self.ids[place], self.types[place], int(self.device[place])
        if number < 0:
            return PartOp(op, kind, place, OpState.NOT_COMPARED)
        row = self.measured[number]
        cosine = known(row.metrics, Metric.COSINE_SIMILARITY)
        return PartOp(op, kind, place, row.state, cosine, int(self.fused[place]))


def device_ops(rows: OpColumns) -> PartOps:
    """The device's ops *rows* as those of a part are listed."""
    return PartOps(rows.ids, rows.types, rows, np.arange(len(rows), dtype=np.int32), rows.fused)


@dataclass(frozen=True, slots=True)
class Answer:
    """What lies between *marks*: None with a sentence in ``trouble`` if nothing could be asked.

    ``inside`` and ``along`` are ops of the side of the marks: those of the part, and those that
    only make constants for it. Without ``dumps_known`` nobody looked whether data are there.
    ``alone`` is a part of a graph that has no device's beside it.
    """

    marks: Marks
    selection: Selection | None = None
    trouble: str = ""
    inside: frozenset[str] = frozenset()
    along: frozenset[str] = frozenset()
    device_ops: int = 0
    dumps_known: bool = False
    alone: bool = False

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Why the part may not be cut so."""
        return () if self.selection is None else self.selection.refused

    @property
    def ready(self) -> bool:
        """True if the part may be exported."""
        return self.selection is not None and bool(self.selection.chosen) and not self.refused

    @property
    def lacks_a_dump(self) -> bool:
        """True of a graph's part that only lacks what a dump tells, which an export makes."""
        part = self.selection
        return self.alone and part is not None and bool(part.chosen) and part.lacks_only_forms

    @property
    def offer(self) -> Refusal | None:
        """The first refusal that knows what may be cut instead."""
        return next((one for one in self.refused if one.starts or one.ends), None)


class PartChooser:
    """Chooses parts of one run: by structure at once, with what the dumps hold once they
    are opened."""

    alone = False
    """Whether there is one graph, without a run of it."""

    def __init__(self, parts: ModelParts, rows: OpColumns) -> None:
        self.structure_only = ""
        """Why the dumps could not be opened."""
        self.opened = False
        self._parts = parts
        self._lock = threading.Lock()
        self._rows = rows
        self._ops: dict[Side, PartOps] = {}

    def open_sources(self, progress: Progress) -> None:
        """Find models and dumps of the run; what is missing is said in ``structure_only``."""
        try:
            parts = self._parts.opened_apart(progress)
        except DivergraphError as error:
            self.structure_only = str(error)
        else:
            with self._lock:
                self._parts = parts
        self.opened = True

    def ops(self, side: Side) -> PartOps:
        """The ops of one graph in execution order."""
        with self._lock:
            if side not in self._ops:
                of_device = side is Side.DEVICE
                self._ops[side] = device_ops(self._rows) if of_device else self._golden_ops()
            return self._ops[side]

    def _golden_ops(self) -> PartOps:
        ids, types = self._parts.golden_ops
        alone = np.ones(len(ids), dtype=np.int32)
        return PartOps(ids, types, self._rows, self._parts.last_standing, alone)

    def choose(self, marks: Marks) -> Answer:
        """The part between *marks*."""
        if not marks.starts or not marks.ends:
            return Answer(marks)
        with self._lock:
            parts = self._parts
            try:
                part = parts.select(marks.starts, marks.ends, self._side_of(marks))
            except DivergraphError as error:
                hint = f"; {error.hint}" if error.hint else ""
                return Answer(marks, trouble=f"{error.what}{hint}")
            device = parts.device_ops(part.chosen)
        inside, along = frozenset(part.chosen), frozenset(part.constants)
        if self._side_of(marks) is Side.DEVICE:
            inside, along = frozenset(device), frozenset()
        return Answer(marks, part, "", inside, along, len(device), parts.is_open, self.alone)

    def _side_of(self, marks: Marks) -> Side:
        """The side on which the ops of the marks are, for those who choose parts."""
        return marks.side

    def accepted(self, answer: Answer) -> Marks:
        """The marks of the nearest part that may be cut; on the golden side where the
        device has no op for one of them."""
        offer, selection = answer.offer, answer.selection
        if offer is None or selection is None:
            return answer.marks
        starts, ends = offer.starts or selection.starts, offer.ends or selection.ends
        return self.marked_on(answer.marks.side, starts, ends)

    def marked_on(self, side: Side, starts: Sequence[str], ends: Sequence[str]) -> Marks:
        """Marks on golden ops, as marks of *side* where the device has an op for each."""
        if side is Side.DEVICE:
            stands_for = self._parts.stands_for
            if all(stands_for.get(op) for op in (*starts, *ends)):
                first, last = self._parts.device_ops(starts), self._parts.device_ops(ends)
                return Marks(Side.DEVICE, first, last)
        return Marks(Side.GOLDEN, tuple(starts), tuple(ends))

    def on_other_side(self, marks: Marks) -> Marks:
        """The same marks on the ops of the other graph; those nothing stands for are dropped."""
        parts = self._parts
        if marks.side is Side.DEVICE:
            originals = parts.originals
            starts = [
                op for one in marks.starts if originals.get(one) for op in self._end(one, False)
            ]
            ends = [op for one in marks.ends if originals.get(one) for op in self._end(one, True)]
            return Marks(Side.GOLDEN, tuple(dict.fromkeys(starts)), tuple(dict.fromkeys(ends)))
        return Marks(Side.DEVICE, parts.device_ops(marks.starts), parts.device_ops(marks.ends))

    def first_original(self, op: str) -> str:
        """The first golden op the device op stands for; empty if it stands for none."""
        return self._parts.first_original(op)

    def _end(self, op: str, last: bool) -> tuple[str, ...]:
        with self._lock:
            return self._parts.golden_ends(op, last=last)

    @property
    def why_no_export(self) -> str:
        """Why no part of this run can be written, wherever its files are; empty if it can."""
        return self._parts.why_not_written

    @property
    def form(self) -> str:
        """The form parts are written in: that of the golden model."""
        return self._parts.form

    @property
    def other_model(self) -> str:
        """A sentence if the device's graph may be of another model; else empty."""
        return self._parts.other_model

    def smallest(self, part: Selection) -> Suggestion | None:
        """*part* grown upstream to where the fewest bytes go in; None if it is so already."""
        with self._lock:
            return self._parts.smallest(part)

    @property
    def why_no_files(self) -> str:
        """Why nothing can be made of the run's files here; empty if it can."""
        if self._parts.is_open:
            return ""
        return "models and dumps cannot be opened" if self.opened else "still opening the dumps"


class GraphPartChooser(PartChooser):
    """Chooses parts of an imported graph. On screen its ops are those of the device; parts are cut
    out of the golden model, which is the same graph here."""

    alone = True

    def open_sources(self, progress: Progress) -> None:
        """There are none."""
        self.structure_only, self.opened = "an imported graph has no dumps", True

    def _side_of(self, marks: Marks) -> Side:
        return Side.GOLDEN

    def marked_on(self, side: Side, starts: Sequence[str], ends: Sequence[str]) -> Marks:
        """Marks on ops of the graph."""
        return Marks(Side.DEVICE, tuple(starts), tuple(ends))

    @property
    def why_no_files(self) -> str:
        """A job looks for the files, and says what is missing."""
        return ""
