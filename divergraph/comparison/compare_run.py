"""The whole comparison: two graphs and two dump folders in, one run out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

from divergraph.comparison.dump_remarks import (
    dump_remarks,
    overflow_doubt,
    problem_remarks,
    statistics_remark,
    with_overflows,
)
from divergraph.comparison.found_so_far import Tally
from divergraph.comparison.graphs_once import GraphsOnce
from divergraph.comparison.observed_run import NOTHING_UNDUMPED, Undumped, observed
from divergraph.consistency.repeat import NOT_DETERMINISTIC
from divergraph.consistency.stored_run import run_findings
from divergraph.graphs.arrivals import arriving
from divergraph.graphs.assumed_axes import with_axes_settled
from divergraph.graphs.lineage import Lineage
from divergraph.graphs.linking_run import linked_graphs
from divergraph.graphs.matching.in_place import overwritten
from divergraph.graphs.pairing import Pair, device_order, pair_tensors
from divergraph.inputs.kept_paths import with_folder
from divergraph.inputs.sides import loaded_dumps, same_dump
from divergraph.inputs.sources import (
    DumpSource,
    GraphSource,
    job_of,
    load_dumps,
    load_graph,
    weights_option,
)
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.layouts.sides import in_device_layout
from divergraph.metrics.limits.thresholds import Thresholds, load_thresholds
from divergraph.metrics.pairs.detailed_metrics import detailed_metrics
from divergraph.metrics.pairs.many_pairs import DEFAULT_WORKERS, Workers, measure_all
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.statistics import at_least_a_warning
from divergraph.results.conclusion import concluded
from divergraph.rootcause.coarse_golden import with_fair_root_cause
from divergraph.rootcause.options import DEFAULT_OPTIONS, MethodChoice, RootCauseOptions
from divergraph.rootcause.run_inputs import RunSources
from divergraph.rootcause.stored import with_warnings
from divergraph.text.words import counted
from divergraph.thresholds.doubts import judged_by_checksums, undecided, with_doubt
from divergraph.thresholds.recorded.arguments import arguments_remark
from divergraph.thresholds.recorded.judgement import RecordedJudgement
from divergraph.thresholds.recorded.laws import broken_laws
from divergraph.thresholds.recorded.layouts import without_parts
from divergraph.thresholds.recorded.statistics_only import DumpedStatistics
from divergraph.thresholds.starts import Starts, starts_by_limits
from divergraph.thresholds.verdicts import (
    count,
    describe_origins,
    op_states,
    outputs_by_op,
    verdict,
)
from divergraph.verification.witness import with_witness
from divergraph.version import __version__
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import Comparison, Method, Op, Run, TensorIO, TensorRef, Verdict
from graphstore.traverse.topological_order import graph_arrays
from importers.dumps.contract import ANY_DUMP, DumpChoice
from importers.msprobe.importer import runs_in

_MOST_SAID = 3


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What to compare. Graphs are files (``device`` also a folder of ge_proto files),
    dumps are folders, or Polygraphy's JSON files; ``thresholds`` is a TOML file, None for
    the defaults; ``choice`` says which of several runs, ranks and steps to take; ``match`` is
    a TOML file with the user's word on which tensors belong together; ``workers`` says who
    measures, the results are the same; ``undumped`` is the device's run without dumping;
    ``weights`` are those of a golden Caffe net."""

    golden: Path
    golden_dump: Path
    device: Path
    device_dump: Path
    thresholds: Path | None = None
    name: str = "run"
    choice: DumpChoice = ANY_DUMP
    match: Path | None = None
    method: MethodChoice = MethodChoice.AUTO
    root_cause: RootCauseOptions = DEFAULT_OPTIONS
    workers: Workers = DEFAULT_WORKERS
    undumped: Undumped = NOTHING_UNDUMPED
    weights: Path | None = None


def compare(
    request: CompareRequest, progress: Progress = NO_PROGRESS, graphs: GraphsOnce | None = None
) -> RunData:
    """Compare every matched tensor and find where the error starts.

    Graphs read before are taken from *graphs*. Tensors are read one pair at a time (in each
    worker process), so memory does not grow with their number. A damaged dump makes that
    tensor "not compared" with its reason; the run goes on.

    Raises:
        InputError: a path or file cannot be used, or no dump file fits its graph.
    """
    jobs = _whole_jobs(request)
    request = jobs or request
    thresholds = load_thresholds(request.thresholds)
    graphs = graphs or GraphsOnce()
    progress.stage("reading graphs")
    weights = {"golden": weights_option(request.weights)}
    choice = None if jobs else request.choice
    golden_graph, device_graph = (
        load_graph(path, dump, side, weights.get(side), choice=choice, files=graphs)
        for path, dump, side in (
            (request.golden, request.golden_dump, "golden"),
            (request.device, request.device_dump, "device"),
        )
    )
    progress.stage("finding dumps")
    paths = {"golden": request.golden_dump, "device": request.device_dump}
    golden_dump, device_dump = loaded_dumps(
        golden_graph,
        device_graph,
        lambda side, source: load_dumps(paths[side], source.graph, side, request.choice, graphs),
    )
    _check_choice(request.choice, golden_dump.decided | device_dump.decided)
    golden_dump, device_dump = with_axes_settled(
        golden_graph, device_graph, golden_dump, device_dump, graphs.link
    )
    golden_graph, golden_dump = in_device_layout(
        golden_graph, device_graph, golden_dump, device_dump, graphs.link
    )
    return _Comparing(
        request, thresholds, golden_graph, device_graph, golden_dump, device_dump, graphs
    ).run(progress)


def _whole_jobs(request: CompareRequest) -> CompareRequest | None:
    """*request* with the folders of a step of two jobs, whose ranks are one graph, or of a job and
    a run of one rank; None where neither is a job, or a rank is chosen."""
    paths = request.golden, request.golden_dump, request.device, request.device_dump
    steps = [job_of(path, request.choice) for path in paths]
    golden, golden_dump, device, device_dump = steps
    if (golden is None) != (golden_dump is None) or (device is None) != (device_dump is None):
        return None
    sides = (golden, request.golden), (device, request.device)
    if golden is device or any(job is None and len(runs_in(path)) != 1 for job, path in sides):
        return None
    return replace(
        request,
        golden=golden or request.golden,
        golden_dump=golden_dump or request.golden_dump,
        device=device or request.device,
        device_dump=device_dump or request.device_dump,
        choice=replace(request.choice, step=None),
    )


def compare_all(
    items: Sequence[Pair | Comparison],
    thresholds: Thresholds,
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
) -> list[Comparison]:
    """The comparison of each item in order; what already is one stays as it is."""
    pairs = [item for item in items if isinstance(item, Pair)]
    progress.stage("comparing tensors", len(pairs))
    tensors = [pair.tensors for pair in pairs]
    tally = Tally(progress)
    judged_pairs: dict[int, Comparison] = {}

    def hear(number: int, measured: Measurement) -> None:
        judged_pairs[number] = judged(pairs[number], measured, thresholds)
        tally.add(number, judged_pairs[number])

    measurements = measure_all(tensors, progress, workers, heard=hear)
    compared = [judged_pairs[number] for number in range(len(pairs))]
    over = (
        (number, tensors[number], measurements[number])
        for number, comparison in enumerate(compared)
        if comparison.over
    )
    for number, figures in detailed_metrics(over):
        compared[number] = replace(compared[number], figures=figures)
    done = iter(compared)
    return [item if isinstance(item, Comparison) else next(done) for item in items]


def judged(pair: Pair, measurement: Measurement, thresholds: Thresholds) -> Comparison:
    """The comparison *measurement* gives for *pair*, with its level."""
    judgement = None
    if measurement.metrics is not None:
        judgement = thresholds.judge(
            measurement.metrics,
            measurement.figures,
            device=pair.device.dtype,
            golden=pair.golden.dtype,
            op_type=pair.op.type,
            name=pair.op.name,
        )
    return Comparison(
        pair.op.id,
        pair.io,
        pair.port,
        None if pair.outside else pair.match.golden,
        pair.match.rule,
        metrics=measurement.metrics,
        level=None
        if judgement is None
        else at_least_a_warning(judgement.level, measurement.detail),
        failed=() if judgement is None else judgement.failed,
        reason=measurement.reason,
        detail=measurement.detail,
        shape=measurement.shape,
        device_dtype=pair.device.dtype,
        golden_dtype=pair.golden.dtype,
        device_path=str(pair.device.path),
        golden_path=str(pair.golden.path),
        address=pair.device.address,
        overflow=measurement.overflow,
        figures=measurement.figures,
        limit="" if judgement is None else judgement.limit,
    )


def _not_deterministic(data: RunData) -> Iterator[str]:
    """What the findings say of it: of few ops, ``advise`` says it of all."""
    sentences = [
        finding.sentence for finding in data.findings if finding.label == NOT_DETERMINISTIC
    ]
    yield from sentences[:_MOST_SAID]
    if (more := len(sentences) - _MOST_SAID) > 0:
        yield f"the same is true of {counted(more, 'more op')} (divergraph advise lists them)"


def _check_choice(choice: DumpChoice, decided: frozenset[str]) -> None:
    """Refuse a choice that chose nothing: the user believes it did."""
    for option in fields(choice):
        if getattr(choice, option.name) is not None and option.name not in decided:
            name = option.name.replace("_", "-")
            raise InputError(
                f"--{name} {getattr(choice, option.name)}: neither dump has a choice of that kind",
                hint="the folders given may already lie below it",
            )


@dataclass(frozen=True)
class _Comparing:
    request: CompareRequest
    thresholds: Thresholds
    golden: GraphSource
    device: GraphSource
    golden_dump: DumpSource
    device_dump: DumpSource
    graphs: GraphsOnce

    def run(self, progress: Progress) -> RunData:
        progress.stage("linking ops")
        linked = linked_graphs(
            self.golden,
            self.device,
            self.golden_dump,
            self.device_dump,
            self.request.match,
            progress,
            self.request.root_cause.memory,
            self.graphs.link,
        )
        lineage = linked.lineage
        arrays = graph_arrays(self.device.graph)
        order = device_order(self.device.graph, list(arrays.ids))
        items = list(pair_tensors(order, lineage, self.device_dump.index, self.golden_dump.index))
        compared = compare_all(items, self.thresholds, progress, self.request.workers)
        corrected = {}
        if lineage.recorded:
            compared += self._arriving(lineage, compared, progress)
        else:
            corrected = overwritten(lineage, self.device.graph, compared, self.device_dump.index)
        if corrected:
            lineage = replace(lineage, outputs={**lineage.outputs, **corrected})
            items, compared = self._again(order, lineage, compared, corrected, progress)
        comparisons = with_overflows(compared, self.device_dump.index)
        progress.stage("finding origins")
        outputs = outputs_by_op(comparisons)
        starts = starts_by_limits(
            arrays,
            self.device.graph,
            comparisons,
            outputs,
            self.golden.graph,
            lineage.links,
            self._statistics(lineage),
        )
        if starts.recorded.verdict is Verdict.LAYOUTS_DIFFER:
            comparisons = without_parts(comparisons)
            outputs = outputs_by_op(comparisons)
        origin_ids = starts.origins
        ops = self.device.graph.op_index()
        origins = describe_origins(
            origin_ids, ops, comparisons, lineage.links, starts.recorded.causes
        )
        counts = count(len(order), comparisons)
        run = Run(
            name=self.request.name,
            golden=self.golden.graph.id,
            device=self.device.graph.id,
            created=datetime.now(UTC).isoformat(timespec="milliseconds"),
            verdict=starts.recorded.verdict or verdict(counts, origins, comparisons),
            method=Method.THRESHOLDS,
            counts=counts,
            thresholds=self.thresholds.as_mapping(),
            inputs=with_folder(self._inputs()),
            warnings=(*linked.notes, *self._warnings(outputs, origin_ids, comparisons)),
            version=__version__,
        )
        data = RunData(
            run,
            self.golden.graph,
            self.device.graph,
            lineage.links,
            comparisons,
            op_states(arrays.ids, outputs, frozenset(origin_ids)),
            origins,
        )
        data = replace(data, findings=(*starts.recorded.findings, *run_findings(data, arrays)))
        data = with_warnings(data, _not_deterministic(data))
        data = self._with_calls_judged(data, starts.recorded, items, progress)
        if lineage.recorded:
            data = with_warnings(data, arguments_remark(data))
        data = _with_choices(data, starts)
        pairs = [item for item in items if isinstance(item, Pair)]
        data = observed(data, pairs, self.request.undumped, self.thresholds)
        doubt = same_dump(self.golden_dump, self.device_dump)
        data = undecided(with_doubt(data, doubt)) if doubt else judged_by_checksums(data)
        data = with_doubt(data, overflow_doubt(self.device_dump.index), first=True)
        return concluded(data, pairs)

    def _statistics(self, lineage: Lineage) -> DumpedStatistics | None:
        """What both dumps have, and the laws that calls of the device break and golden's do not."""
        if not lineage.recorded:
            return None
        device, golden = self.device_dump.index.tensors, self.golden_dump.index.tensors
        laws = broken_laws(self.device.graph, device)
        kept = broken_laws(self.golden.graph, golden) if laws else {}
        right = {link.device for link in lineage.links if link.original not in kept}
        return DumpedStatistics(
            {op: said for op, said in laws.items() if op in right}, device, golden
        )

    def _arriving(
        self, lineage: Lineage, compared: Sequence[Comparison], progress: Progress
    ) -> list[Comparison]:
        """What other ranks bring to collective calls whose outputs are off."""
        pairs = list(arriving(lineage, self.device.graph, compared))
        if not pairs:
            return []
        arrivals = compare_all(
            [pair for pair, _ in pairs], self.thresholds, progress, self.request.workers
        )
        return [
            replace(item, detail=": ".join(filter(None, (words, item.detail))))
            for item, (_, words) in zip(arrivals, pairs, strict=True)
        ]

    def _again(
        self,
        order: list[Op],
        lineage: Lineage,
        compared: Sequence[Comparison],
        changed: Collection[TensorRef],
        progress: Progress,
    ) -> tuple[list[Pair | Comparison], list[Comparison]]:
        """What is compared by *lineage*, and the comparisons: those of outputs that *changed*
        their counterpart anew, others as they were."""
        items = list(pair_tensors(order, lineage, self.device_dump.index, self.golden_dump.index))
        mixed = [
            item if _is_one_of(item, changed) else item_before
            for item, item_before in zip(items, compared, strict=True)
        ]
        return items, compare_all(mixed, self.thresholds, progress, self.request.workers)

    def _with_calls_judged(
        self,
        data: RunData,
        recorded: RecordedJudgement,
        items: Sequence[Pair | Comparison],
        progress: Progress,
    ) -> RunData:
        """The root-cause analysis of *data*, and what is said of two recorded runs by limits: that
        limits do not tell who is to blame holds only where calls are not run again."""
        if recorded.final:
            return with_doubt(data, recorded.doubt)
        if recorded.verdict is not Verdict.UNDECIDED:
            return self._with_root_cause(with_doubt(data, recorded.doubt), items, progress)
        open_run = replace(data, run=replace(data.run, verdict=Verdict.WITHIN_ROUNDING))
        analysed = self._with_root_cause(open_run, items, progress)
        if analysed.run.method is Method.THRESHOLDS:
            analysed = with_doubt(undecided(analysed), recorded.doubt)
        return analysed

    def _with_root_cause(
        self, data: RunData, items: Sequence[Pair | Comparison], progress: Progress
    ) -> RunData:
        sources = RunSources(
            self.golden.path,
            self.device.path,
            self.golden_dump.index,
            self.device_dump.index,
            [item for item in items if isinstance(item, Pair)],
        )
        request = self.request
        analysed = with_fair_root_cause(data, sources, request.method, request.root_cause, progress)
        return with_witness(analysed, sources, request.root_cause)

    def _inputs(self) -> Mapping[str, str]:
        return {
            "golden": str(self.golden.path),
            "golden_dump": str(self.golden_dump.path),
            "device": str(self.device.path),
            "device_dump": str(self.device_dump.path),
            "thresholds": str(self.request.thresholds or ""),
            "match": str(self.request.match or ""),
            **weights_option(self.request.weights),
            **self.request.undumped.paths,
        }

    def _warnings(
        self,
        outputs: Mapping[str, Sequence[Comparison]],
        origins: Sequence[str],
        comparisons: Sequence[Comparison],
    ) -> Iterator[str]:
        yield from self.golden.notes
        yield from self.device.notes
        yield from self.device_dump.notes
        yield from self.golden_dump.notes
        for side, graph in (("golden", self.golden.graph), ("device", self.device.graph)):
            for warning in graph.warnings:
                yield f"{side} graph: {warning}"
        for side, dump in (("golden", self.golden_dump), ("device", self.device_dump)):
            yield from problem_remarks(side, dump.index)
            yield from dump_remarks(side, dump.index)
        yield from statistics_remark(comparisons)
        if not self.device.graph.has_guessed_edges:  # there the cause of an origin says so
            yield from _entry_mismatches(comparisons, origins)


def _is_one_of(item: Pair | Comparison, outputs: Collection[TensorRef]) -> bool:
    op = item.op.id if isinstance(item, Pair) else item.op
    return item.io is TensorIO.OUTPUT and TensorRef(op, item.port) in outputs


def _with_choices(data: RunData, starts: Starts) -> RunData:
    """*data* with a word on ops that are no origins although they are over, if limits decide."""
    if data.run.method is not Method.THRESHOLDS:
        return data
    notes = [f"no origin: {note}" for note in starts.notes(data.device.op_index())]
    return replace(data, run=replace(data.run, warnings=(*data.run.warnings, *notes)))


def _entry_mismatches(comparisons: Sequence[Comparison], origins: Sequence[str]) -> Iterator[str]:
    """An origin whose own dumped input is over already got wrong data from outside."""
    wanted = set(origins)
    for item in comparisons:
        if item.io is TensorIO.INPUT and item.over and item.op in wanted:
            yield (
                f"{item.op}: its input {item.port} already differs from golden {item.golden}, "
                "so the error may come from outside the compared ops"
            )
