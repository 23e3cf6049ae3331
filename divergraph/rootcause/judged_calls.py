"""The origins of a recorded run: calls that are wrong on their own inputs, or called otherwise.

A call that is run again and does not give what its inputs give is an origin. It is one as well if
a weight it reads, or what is called around it, is another than golden's (``thresholds.recorded``):
running a call again cannot show that, as the device's inputs have it already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from divergraph.execute.translate.torch.catalogue import ROWS
from divergraph.rootcause.calls_alone import is_recorded
from divergraph.rootcause.stored import with_warnings
from divergraph.text.words import counted
from divergraph.thresholds.recorded.arguments import unlike_arguments
from divergraph.thresholds.recorded.call_pairs import CallPairs
from divergraph.thresholds.recorded.cause_labels import (
    ARGUMENT,
    EXTRA,
    GRADIENT,
    INPUT,
    MISSING,
    MOVED,
    REDUCTION,
    SCALED,
    WEIGHT,
)
from divergraph.thresholds.recorded.judgement import RecordedJudgement
from divergraph.thresholds.recorded.stopped_gradients import untied_weights
from divergraph.thresholds.recorded.sums_over_ranks import multiplied_addends, scaled_reductions
from divergraph.thresholds.starts import calls_by_limits, owners_around
from divergraph.thresholds.verdicts import describe_origins
from graphstore.contract import RunData
from graphstore.model import (
    UNCLASSIFIED,
    ErrorSplit,
    Finding,
    FindingKind,
    Guilt,
    ModelGraph,
    Op,
    OpState,
    TensorIO,
    TensorRef,
    Verdict,
)
from importers.dumps.msprobe.entries import PARAMETERS_GRAD
from importers.msprobe.calls import CallName
from importers.msprobe.collectives import ranks_words
from importers.msprobe.job_names import RANK, RANKS, rank_of_output, ranks_of, split_rank

_CALLED_OTHERWISE = (ARGUMENT, WEIGHT, GRADIENT, MISSING, EXTRA, MOVED, REDUCTION)
"""Causes that a call has whether it computes right or not, or can be seen to: a fill value that is
not golden's infinity counts as a mask."""


def with_calls_judged(data: RunData, splits: Mapping[TensorRef, ErrorSplit]) -> RunData:
    """*data*, whose origins are the guilty calls by *splits*, with those that both runs together
    show beside them, in the order of the calls; as it is unless both sides are recorded runs.

    What only follows is no origin: modules around an origin, and ways back of a call whose way
    there is one. A call that could not be run again is one by limits, if none is before it.
    """
    if not is_recorded(data):
        return data
    pairs = CallPairs(data.device, data.golden, data.links, data.comparisons)
    guilty = {origin.op for origin in data.origins}
    reran = {ref.op for ref, split in splits.items() if not split.failure}
    doubted = {ref.op for ref, split in splits.items() if split.guilt is not Guilt.NONE}
    recorded = calls_by_limits(pairs, right=reran - doubted).recorded
    labels = {each.op: each.label for each in recorded.findings}
    places = {op.id: place for place, op in enumerate(data.device.ops)}
    blamed = guilty | {op for op in recorded.causes if labels.get(op) in _CALLED_OTHERWISE}
    first = min((places[op] for op in blamed), default=len(places))
    blamed |= {
        op
        for op in recorded.causes
        if places[op] < first and (op not in reran or _is_fed_otherwise(pairs.ops[op], labels))
    }
    blamed = {_called(op, pairs) for op in blamed}
    blamed -= _followers(data.device, blamed)
    untied = untied_weights(pairs)
    labels |= {op: GRADIENT for op in untied if op in blamed}
    stops = [
        places[op]
        for op in blamed
        if labels.get(op) == GRADIENT or (op in guilty and pairs.lacks_way_back(op))
    ]
    if stops:  # gradients that are not there are missing in all that reads them
        blamed = {
            op
            for op in blamed
            if labels.get(op) == GRADIENT
            or places[op] < min(stops)
            or (op in guilty and not any(item.misshapen for item in pairs.outputs.get(op, ())))
        }
    if not blamed:
        unsummed = (*scaled_reductions(pairs), *multiplied_addends(pairs))
        recorded = replace(recorded, findings=(*recorded.findings, *unsummed))
        blamed = {finding.op for finding in unsummed}
    ordered = sorted(blamed, key=places.__getitem__)
    sentences = _kept_gradients(ordered, pairs, reran) | {
        op: untied[op] for op in ordered if op in untied
    }
    gradients = {op: _of_gradients(op, sentence) for op, sentence in sentences.items()}
    causes = _with_ranks(data, _causes(data, pairs, recorded, ordered) | gradients)
    alike = _alike(ordered, pairs, causes)
    causes = _with_number(alike, pairs, causes)
    found = _with_origins(data, pairs, recorded, alike, causes)
    return with_warnings(found, ranks_remark(found, pairs, alike))


def _is_fed_otherwise(op: Op, labels: Mapping[str, str]) -> bool:
    """Whether something unrecorded made an input of *op* differ: a view, a cast, an index.

    Gradients of what several calls read are added up, which is not recorded either: on the way
    back an input that no recorded call made is nothing strange, unless it is golden's times a
    number.
    """
    label = labels.get(op.id)
    return label == SCALED or (label == INPUT and op.attrs.get("direction") == "forward")


def _followers(graph: ModelGraph, blamed: Collection[str]) -> set[str]:
    """The calls of *blamed* that follow from others of them."""
    around = owners_around(graph, blamed)
    ops = graph.op_index()
    there = {ops[op].name for op in {*blamed, *around}}
    back = {op for op in blamed if not there.isdisjoint(CallName.of(ops[op].name).before)}
    return around | back


def _causes(
    data: RunData, pairs: CallPairs, recorded: RecordedJudgement, ordered: Iterable[str]
) -> dict[str, Finding]:
    """The cause of each origin that has one: an argument or a weight that differs comes before what
    the values look like, which it makes so; other calls around it, where values tell nothing."""
    found: dict[str, Finding] = {}
    values = sorted(
        (each for each in data.findings if each.kind is FindingKind.CAUSE),
        key=lambda each: each.confidence,
    )
    for finding in values:
        found[finding.op] = finding
    for finding in recorded.findings:
        known = found.get(finding.op)
        if known is None or known.label == UNCLASSIFIED or finding.label == WEIGHT:
            found[finding.op] = finding
    for op in ordered:
        if said := _unlike_arguments(op, pairs):
            found[op] = Finding(FindingKind.CAUSE, ARGUMENT, said, op, TensorIO.OUTPUT, 0, 1.0)
    return found


def _unlike_arguments(op: str, pairs: CallPairs) -> str:
    twin = pairs.twin(op)
    return "" if twin is None else unlike_arguments(pairs.ops[op], twin)


def _called(op: str, pairs: CallPairs) -> str:
    """The call that *op* is the way back of, if that has other arguments, which are those of both;
    else *op*."""
    before = (call for call in pairs.before(pairs.ops[op]) if _unlike_arguments(call, pairs))
    return next(before, op)


def _of_gradients(op: str, sentence: str) -> Finding:
    return Finding(FindingKind.CAUSE, GRADIENT, sentence, op, TensorIO.OUTPUT, 0, 1.0)


def _kept_gradients(
    ordered: Sequence[str], pairs: CallPairs, reran: Collection[str]
) -> dict[str, str]:
    """The cause of gradients of parameters that are, of those that were run again, mostly not what
    their calls give, where the ways back are right: no module makes that, so it is one fault."""
    directions = {op.id: op.attrs.get("direction") for op in pairs.device.ops}
    blamed = [op for op in ordered if directions[op] == PARAMETERS_GRAD]
    sums = {op for op in (*reran, *blamed) if directions[op] == PARAMETERS_GRAD}
    is_back = any(directions[op] == "backward" for op in ordered)
    if is_back or not blamed[1:] or 2 * len(blamed) <= len(sums):
        return {}
    sentence = (
        f"the gradients of {len(blamed)} of {counted(len(sums), 'module')} are not what their "
        "calls give: those of before were not set to zero, or all are scaled"
    )
    return dict.fromkeys(blamed, sentence)


def _with_ranks(data: RunData, causes: Mapping[str, Finding]) -> Mapping[str, Finding]:
    """*causes*; those of calls between ranks say on which of them the output is off, if not on
    all."""
    guilty: dict[str, set[int]] = {}
    ops = data.device.op_index()
    for item in data.comparisons:
        op = ops[item.op]
        if item.op not in causes or RANKS not in op.attrs or item.io is not TensorIO.OUTPUT:
            continue
        if item.split is not None and item.split.guilt is Guilt.GUILTY:
            guilty.setdefault(item.op, set()).add(rank_of_output(op, item.port))
    said = dict(causes)
    for op_id, ranks in guilty.items():
        all_ranks = {rank_of_output(ops[op_id], ref.port) for ref in ops[op_id].makes}
        if ranks != all_ranks:
            on = f"on {ranks_words(ranks)} alone"
            said[op_id] = replace(said[op_id], sentence=f"{said[op_id].sentence} ({on})")
    return said


def ranks_remark(
    data: RunData, pairs: CallPairs, alike: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Of a job of several ranks, on which the error starts, which follow and which are clean."""
    starts, follows, every = set[int](), set[int](), set[int]()
    origins = {op for origin in data.origins for op in alike[origin.op]}
    ops = pairs.ops
    if any(each.label == MISSING and each.op in origins for each in data.findings):
        starts.update(*(ranks_of(op) for op in pairs.missing))
    for item in data.comparisons:
        op = ops[item.op]
        if item.io is not TensorIO.OUTPUT or not (RANK in op.attrs or RANKS in op.attrs):
            continue
        rank = rank_of_output(op, item.port)
        every.add(rank)
        if item.over:
            (starts if item.op in origins else follows).add(rank)
    parts = [
        f"{what} {ranks_words(ranks)}"
        for what, ranks in (
            ("the error starts on", starts),
            ("it is carried to", follows - starts),
            ("nothing is over a limit on", every - starts - follows),
        )
        if ranks
    ]
    if starts:
        yield "; ".join(parts)


def _alike(
    ordered: Iterable[str], pairs: CallPairs, causes: Mapping[str, Finding]
) -> dict[str, list[str]]:
    """The calls that stand for one fault, by the first of them. A beta of the optimizer, say, is an
    argument of a call for each parameter; a wrong kernel is one on each rank; and what a rank does
    not give to one call between ranks it gives to no other of that kind."""
    first: dict[tuple[object, ...], str] = {}
    found: dict[str, list[str]] = {}
    for op_id in ordered:
        op, cause = pairs.ops[op_id], causes.get(op_id)
        key: tuple[object, ...] = (op_id,)
        if cause is not None and cause.label == GRADIENT:
            key = (cause.sentence,)
        elif cause is not None and (cause.label == ARGUMENT or RANKS in op.attrs):
            key = op.type, op.attrs.get(RANKS), cause.sentence
        elif RANK in op.attrs:
            key = (split_rank(op_id)[1],)
        found.setdefault(first.setdefault(key, op_id), []).append(op_id)
    return found


def _with_number(
    alike: Mapping[str, Sequence[str]], pairs: CallPairs, causes: Mapping[str, Finding]
) -> Mapping[str, Finding]:
    """*causes*; those of calls with others *alike* say on which ranks, or at how many more."""
    said = dict(causes)
    for op_id, calls in alike.items():
        ops = [pairs.ops[each] for each in calls]
        if len(ops) < 2 or op_id not in said:
            continue
        ranks = {rank for op in ops for rank in ranks_of(op)}
        where = f"at {counted(len(ops) - 1, 'more call')}"
        if len({split_rank(op.id)[1] for op in ops}) == 1:
            where = f"on {ranks_words(ranks)}"
        said[op_id] = replace(said[op_id], sentence=f"{said[op_id].sentence}; the same {where}")
    return said


def _with_origins(
    data: RunData,
    pairs: CallPairs,
    recorded: RecordedJudgement,
    alike: Mapping[str, Sequence[str]],
    causes: Mapping[str, Finding],
) -> RunData:
    ordered, blamed = list(alike), {op for calls in alike.values() for op in calls}
    sentences = {op: finding.sentence for op, finding in causes.items()}
    known = {origin.op: origin for origin in data.origins}
    described = describe_origins(ordered, pairs.ops, data.comparisons, data.links, sentences)
    origins = tuple(
        replace(known.get(each.op, each), rank=each.rank, cause=each.cause) for each in described
    )
    freed = [each for op, each in known.items() if op not in blamed]
    suspects = [each for each in data.suspects if each.op not in blamed]
    others = [
        each
        for each in data.findings
        if each.kind is not FindingKind.CAUSE or each.op not in causes
    ]
    verdict = Verdict.DIVERGED if origins else data.run.verdict
    if not origins and recorded.verdict is Verdict.INPUTS_DIFFER:
        verdict = recorded.verdict
    elif not origins and verdict is Verdict.DIVERGED:
        verdict = Verdict.UNDECIDED
    places = {op.id: place for place, op in enumerate(data.device.ops)}
    first = places[ordered[0]] if ordered else len(places)
    return replace(
        data,
        run=replace(data.run, verdict=verdict),
        origins=origins,
        suspects=tuple(
            replace(each, rank=rank) for rank, each in enumerate((*freed, *suspects), start=1)
        ),
        states={
            op: _state(state, op in ordered, places[op] > first)
            for op, state in data.states.items()
        },
        findings=(*others, *causes.values()),
    )


def _state(known: OpState, is_origin: bool, is_behind: bool) -> OpState:
    """The state of a call. Edges of recorded runs are guessed, so all that is later is behind."""
    if is_origin:
        return OpState.ORIGIN
    changes = known in (OpState.ORIGIN, OpState.INHERITED, OpState.EXPLAINED)
    return OpState.INHERITED if changes and is_behind else known


def coverage_remark(graph: ModelGraph, splits: Mapping[TensorRef, ErrorSplit]) -> str:
    """How many of the calls of *graph*, a device's recorded run, were run again, and which not."""
    outputs: dict[str, list[ErrorSplit]] = {}
    for ref, split in splits.items():
        outputs.setdefault(ref.op, []).append(split)
    calls = [op for op in graph.ops if op.outputs and not _is_outside(op)]
    missed = Counter(
        op.type for op in calls if all(each.failure for each in outputs.get(op.id, ()))
    )
    modules = sum(_is_outside(op) for op in graph.ops)
    parts = [f"{len(calls) - missed.total()} of {counted(len(calls), 'call')} were run again"]
    by_torch = sum(
        op.type not in ROWS and any(not each.failure for each in outputs.get(op.id, ()))
        for op in calls
    )
    if by_torch:
        parts.append(f"{by_torch} of them by PyTorch, as they have no row")
    if missed:
        named = [f"{count} {kind}" for kind, count in missed.most_common()]
        parts.append(f"{missed.total()} not: {', '.join(named)}")
    if modules:
        parts.append(f"{counted(modules, 'module')} are judged by the calls inside")
    return "; ".join(parts)


def _is_outside(op: Op) -> bool:
    """Whether *op* is a module that is no call of PyTorch's own: its calls inside are."""
    is_module = op.attrs.get("kind") in ("Module", "Cell")
    return is_module and op.type not in ROWS
