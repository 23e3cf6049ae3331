"""Where the error of a run starts: the guilty ops and the suspects, with the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from divergraph.ask.judging import Judging
from divergraph.ask.sentences import group_text, origin_sentence
from divergraph.rootcause.next_dump import NextDump, best_dump
from graphstore.contract import GraphStore
from graphstore.model import (
    FAULT_OF,
    UNCLASSIFIED,
    Comparison,
    ErrorSplit,
    FaultOf,
    Finding,
    FindingKind,
    Guilt,
    Note,
    Origin,
    Run,
    RunAnalysis,
    Side,
    TensorIO,
)


@dataclass(frozen=True, slots=True)
class OriginAnswer:
    """One op an error starts at, or may.

    ``split`` is that of its output, None without root-cause analysis. ``group`` are the golden ops
    of which one is to blame, if there are several; ``in_one`` says that they are all fused into one
    device op. ``findings`` are the causes found, ``share`` is its part of the error at the outputs.
    ``notes`` are what somebody wrote of its originals, where they were asked for.
    """

    origin: Origin
    guilt: Guilt
    sentence: str
    split: ErrorSplit | None = None
    group: tuple[str, ...] = ()
    in_one: bool = False
    next_dump: NextDump | None = None
    findings: tuple[Finding, ...] = ()
    share: float | None = None
    notes: tuple[Note, ...] = ()

    @property
    def fault_of(self) -> FaultOf | None:
        """Who made it wrong, by its own definition; None where nothing tells."""
        own = (finding for finding in self.findings if finding.port in (self.origin.output, -1))
        fault = next(
            (finding.evidence[FAULT_OF] for finding in own if FAULT_OF in finding.evidence), None
        )
        return None if fault is None else FaultOf(str(fault))

    @property
    def group_sentence(self) -> str:
        """``1 of these 3 ops: a, b, c``; empty if it is one op alone."""
        return group_text(self.group, fused=self.in_one) if self.group else ""


@dataclass(frozen=True, slots=True)
class OriginsAnswer:
    """The guilty ops of a run in rank order, then the suspects; all findings of the run."""

    run: Run
    origins: tuple[OriginAnswer, ...]
    suspects: tuple[OriginAnswer, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def judging(self) -> Judging:
        """How the ops were judged."""
        return Judging.of(self.run)

    def of(self, op: str) -> OriginAnswer | None:
        """The answer for *op*; None if it is neither an origin nor a suspect."""
        both = (*self.origins, *self.suspects)
        return next((one for one in both if one.origin.op == op), None)


def origins(
    store: GraphStore,
    run: str,
    *,
    next_dumps: bool = True,
    details: int | None = None,
    op: str | None = None,
) -> OriginsAnswer:
    """Where the error of *run* starts; of one *op* only, what is said of it.

    With *next_dumps*, the most useful further dump is looked for, which reads the golden graph.
    With *details*, the splits of so many origins only are read.

    Raises:
        UnknownNameError: no such run.
    """
    value = store.run(run)
    guilty, suspects = (
        [origin for origin in accused if op in (None, origin.op)]
        for accused in (store.origins(run), store.suspects(run))
    )
    findings = tuple(store.findings(run))
    outputs = _outputs(store, run, [*guilty, *suspects][:details])
    next_store = store if next_dumps else None
    describe = _Describer(next_store, run, value.analysis, findings, outputs)
    return OriginsAnswer(
        value,
        tuple(describe.origin(origin, Guilt.GUILTY) for origin in guilty),
        tuple(describe.origin(origin, Guilt.SUSPECT) for origin in suspects),
        findings,
    )


def _outputs(
    store: GraphStore, run: str, accused: Sequence[Origin]
) -> dict[tuple[str, int], Comparison]:
    ops = list(dict.fromkeys(origin.op for origin in accused))
    items = store.comparisons(run, ops) if ops else []
    return {(item.op, item.port): item for item in items if item.io is TensorIO.OUTPUT}


class _Describer:
    """Adds what is known to origins; *store* is only read for next dumps."""

    def __init__(
        self,
        store: GraphStore | None,
        run: str,
        analysis: RunAnalysis,
        findings: Sequence[Finding],
        outputs: dict[tuple[str, int], Comparison],
    ) -> None:
        self._store, self._run, self._analysis = store, run, analysis
        self._findings, self._outputs = findings, outputs

    def origin(self, origin: Origin, guilt: Guilt) -> OriginAnswer:
        """One origin with all that is known of it."""
        item = self._outputs.get((origin.op, origin.output))
        split = None if item is None else item.split
        dtype = "" if item is None or item.device_dtype is None else item.device_dtype.value
        group = split.group if split is not None and len(split.group) > 1 else ()
        inside = {ref.op for ref in origin.golden}
        in_one = bool(group) and inside.issuperset(group)
        return OriginAnswer(
            origin,
            Guilt.NONE if split is None and origin.suspicion is None else guilt,
            origin_sentence(origin, split, str(self._analysis.arithmetic) or dtype),
            split,
            group,
            in_one,
            None if in_one else self._next_dump(origin, group),
            tuple(self._causes(origin)),
            self._analysis.blame.shares.get(origin.op),
        )

    def _causes(self, origin: Origin) -> Iterable[Finding]:
        """What is said of an origin's output; where that is nothing, of the op's other outputs."""
        causes = [
            one for one in self._findings if one.kind is FindingKind.CAUSE and one.op == origin.op
        ]
        own = [one for one in causes if one.port in (-1, origin.output)]
        classified = [one for one in causes if one.label != UNCLASSIFIED]
        return own if any(one in classified for one in own) else [*classified, *own]

    def _next_dump(self, origin: Origin, group: Sequence[str]) -> NextDump | None:
        store, run = self._store, self._run
        if store is None or not group:
            return None
        links = [link for original in group for link in store.links(run, original, Side.GOLDEN)]
        return best_dump(group, origin.op, store.arrays(run, Side.GOLDEN), links)
