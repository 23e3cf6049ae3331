"""Minimise the failing model of a kept run: the whole job, for every front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.submodel.bundle import BundleRequest, write_bundle
from divergraph.submodel.minimize.candidates import candidates, space_of
from divergraph.submodel.minimize.oracle import Oracle, OracleOptions, Part, open_oracle
from divergraph.submodel.minimize.prober import KeptAnswers, Prober, SearchLimits, answers_path
from divergraph.submodel.minimize.search import (
    WHOLE_PASSES,
    Found,
    PartSearch,
    SearchOutcome,
    SuspectUnits,
)
from divergraph.submodel.minimize.space import Space, Units
from divergraph.submodel.minimize.verdicts import Probe, Variant
from divergraph.submodel.run_parts import RunParts
from divergraph.submodel.selection import Selection
from divergraph.text.words import counted
from graphstore.contract import RunData
from graphstore.errors import ExecutionError, InputError
from graphstore.model import Framework, OracleAnswer
from graphstore.schema.codec import dumps

Answers: TypeAlias = Mapping[str, Mapping[str, tuple[OracleAnswer, ...]]]
"""By oracle, then by part."""

AUTO, EVIDENCE = "auto", "evidence"
RIGHT_HERE = "run here the device's model is right: what ran on the device errs, as the dumps show"
DEFAULT_LIMITS = SearchLimits()
DEFAULT_OPTIONS = OracleOptions()


@dataclass(frozen=True, slots=True)
class MinimizeRequest:
    """What to do. ``oracle`` is ``auto`` or ``NAME[:ARGUMENT]``; ``variant`` None tries golden
    inputs, then the device's. ``starts`` and ``ends`` limit the search to the ops between
    them. Bundles go below ``output``; without it none is written. ``fresh`` forgets what
    earlier searches learned."""

    oracle: str = AUTO
    starts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    variant: Variant | None = None
    limits: SearchLimits = DEFAULT_LIMITS
    options: OracleOptions = DEFAULT_OPTIONS
    output: Path | None = None
    weights: Path | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class MinimalPart:
    """A failing part that was found: its ops, what goes in and out, where the bundle is."""

    ops: tuple[str, ...]
    selection: Selection
    found: Found
    judgement: OracleAnswer
    bundle: Path | None


@dataclass(frozen=True, slots=True)
class Minimized:
    """All that a search gives. ``note`` says why nothing was found, or why the dumps were asked;
    ``stopped`` why it ended early; ``clean``: there was nothing to look for. ``answers`` are all
    of the oracle, for the run to keep."""

    oracle: str
    parts: tuple[MinimalPart, ...]
    probes: tuple[Probe, ...]
    calls: int
    ops: int
    note: str = ""
    stopped: str = ""
    clean: bool = False
    rate: float | None = None
    answers: Answers = field(default_factory=dict)

    @property
    def first(self) -> MinimalPart | None:
        """The first part found, if there is one."""
        return self.parts[0] if self.parts else None

    def is_by(self, oracle: str) -> bool:
        """Whether the *oracle* of this name answered."""
        return self.oracle.partition(" ")[0] == oracle


def minimize_run(
    parts: RunParts, request: MinimizeRequest, progress: Progress = NO_PROGRESS
) -> Minimized:
    """Find the smallest parts of the run's golden model that still fail.

    Raises:
        InputError: an oracle or op that is not there, or a bundle that cannot be written.
        ExecutionError: the oracle cannot run models here.
    """
    space = space_of(parts)
    _limit(parts, space, request)
    ranking = candidates(parts, space)
    if is_clean(parts) and request.oracle == AUTO:
        note = "nothing in this run is over a limit, so there is nothing to minimise"
        return Minimized(AUTO, (), (), 0, space.size(space.everything), note, clean=True)
    minimized = _searched(parts, request, _oracle(parts, request), space, ranking, progress)
    if request.oracle != AUTO or minimized.note != WHOLE_PASSES or minimized.is_by(EVIDENCE):
        return minimized
    # What ran on the device was made from this model, and errs where this does not.
    oracle = open_oracle(parts, EVIDENCE, request.options)
    proved = _searched(parts, request, oracle, space, ranking, progress)
    if not proved.parts:
        return minimized
    answers = {**minimized.answers, **proved.answers}
    return replace(proved, note=RIGHT_HERE, answers=answers)


def _searched(
    parts: RunParts,
    request: MinimizeRequest,
    oracle: Oracle,
    space: Space,
    ranking: Sequence[SuspectUnits],
    progress: Progress,
) -> Minimized:
    with closing(oracle):
        path = answers_path(parts, oracle.identity)
        stored = parts.data.run.analysis.answers.get(path.stem, {})
        memory = KeptAnswers(path, space, stored, fresh=request.fresh)

        def ask(units: Units, variant: Variant) -> OracleAnswer:
            return oracle.judge(Part(parts, space.ops(units)), variant)

        def told(probe: Probe) -> None:
            progress.step(note=f"{counted(probe.ops, 'op')}: {probe.verdict}")

        prober = Prober(space, ask, request.limits, memory, told, oracle.cancel)
        progress.stage(f"asking {oracle.identity.partition(' ')[0]}", request.limits.calls)
        search = PartSearch(space, prober, ranking, _variants(oracle, request))
        outcome = search.verify() if is_clean(parts) else None
        if outcome is None or not (outcome.note or outcome.stopped):
            outcome = search.run()
        parts_written = _written(parts, space, prober, outcome, request, oracle.identity)
        return Minimized(
            oracle.identity, parts_written, tuple(prober.probes), prober.calls,
            space.size(space.everything), outcome.note, outcome.stopped, rate=prober.rate,
            answers={path.stem: memory.told()},
        )  # fmt: skip


def is_clean(parts: RunParts) -> bool:
    """Whether nothing in the run is wrong: no op guilty or suspect, nothing over a limit."""
    data = parts.data
    return not (data.origins or data.suspects or any(item.over for item in data.comparisons))


def _limit(parts: RunParts, space: Space, request: MinimizeRequest) -> None:
    if not request.starts and not request.ends:
        return
    if not request.starts or not request.ends:
        raise InputError(
            "--start and --end limit the search together", hint="give both, or neither"
        )
    part = parts.select(request.starts, request.ends)
    if not part.chosen and part.refused:
        raise InputError(part.refused[0].sentence)
    space.limited(part.chosen)


def _oracle(parts: RunParts, request: MinimizeRequest) -> Oracle:
    if request.oracle != AUTO:
        return open_oracle(parts, request.oracle, request.options)
    if parts.device.framework is Framework.ONNX:
        try:
            return open_oracle(parts, f"device-model:{parts.sources.device_path}", request.options)
        except ExecutionError:
            pass  # the device's model does not run here: what the dumps prove is left
    return open_oracle(parts, EVIDENCE, request.options)


def _variants(oracle: Oracle, request: MinimizeRequest) -> tuple[Variant, ...]:
    if request.variant is None:
        return oracle.variants
    if request.variant not in oracle.variants:
        raise InputError(
            f"this oracle cannot feed {request.variant} inputs",
            hint="it can: " + ", ".join(oracle.variants),
        )
    return (request.variant,)


def _written(
    parts: RunParts,
    space: Space,
    prober: Prober,
    outcome: SearchOutcome,
    request: MinimizeRequest,
    oracle: str,
) -> tuple[MinimalPart, ...]:
    parts_written = []
    for failing in outcome.found:
        ops = space.ops(failing.units)
        probe = prober.probes[failing.probe]
        part = Part(parts, ops).selection
        bundle = None
        if request.output is not None and not part.refused:
            evidence = _evidence(failing, probe, prober, oracle)
            wanted = BundleRequest(
                request.output, None, request.weights, failing.variant.value, evidence
            )
            bundle = write_bundle(parts, part, wanted).path
        parts_written.append(MinimalPart(ops, part, failing, probe.judgement, bundle))
    return tuple(parts_written)


def _evidence(failing: Found, probe: Probe, prober: Prober, oracle: str) -> Mapping[str, object]:
    """What the bundle's manifest tells of the search."""
    return {
        "oracle": oracle,
        "variant": failing.variant.value,
        "verdict": probe.verdict.value,
        "said": probe.judgement.detail,
        "error": probe.judgement.error,
        "limit": probe.judgement.limit,
        "minimal": failing.minimal,
        "why": failing.why,
        "calls": prober.calls,
        "probes": len(prober.probes),
    }


def with_minimized(data: RunData, answer: Mapping[str, object], answers: Answers) -> RunData:
    """*data* with the result of a search in its analysis, *answer* as of ``minimize --json``,
    and the *answers* of its oracle with those of earlier searches."""
    analysis_before = data.run.analysis
    analysis = replace(
        analysis_before, minimized=dumps(answer), answers={**analysis_before.answers, **answers}
    )
    return replace(data, run=replace(data.run, analysis=analysis))
