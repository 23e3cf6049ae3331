"""What a run says of its dumps: overflows, files of no op, tensors with statistics only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from divergraph.metrics.statistics import BY_STATISTICS
from divergraph.text.words import counted
from graphstore.model import Comparison, Reason, TensorIO
from importers.dumps.index import DumpIndex, DumpProblem, OverflowRecord

_LISTED = 5


def with_overflows(comparisons: Iterable[Comparison], device: DumpIndex) -> tuple[Comparison, ...]:
    """*comparisons* with the overflows the device recorded: ``overflow`` is set on every
    output of such an op, whatever its type, and ``detail`` says what overflowed."""
    recorded: dict[str, list[OverflowRecord]] = {}
    for record in device.overflows:
        if record.op is not None:
            recorded.setdefault(record.op, []).append(record)
    return tuple(_marked(item, recorded.get(item.op, ())) for item in comparisons)


def _marked(item: Comparison, records: Sequence[OverflowRecord]) -> Comparison:
    if not records or item.io is not TensorIO.OUTPUT:
        return item
    mark = "overflow recorded by the device: " + ", ".join(_texts(records))
    return replace(item, overflow=True, detail=f"{item.detail}; {mark}" if item.detail else mark)


def _texts(records: Iterable[OverflowRecord]) -> list[str]:
    return list(dict.fromkeys(record.text() for record in records))


_A_FEW = 3
"""So many files may belong to no op in the dump of any graph."""


def problem_remarks(side: str, index: DumpIndex) -> Iterator[str]:
    """What cannot be used of one side's dump; of more than a few files with the same trouble, how
    many they are."""
    by_detail: dict[str, list[DumpProblem]] = {}
    for problem in index.problems:
        if problem.reason is Reason.ADDEND:  # nothing is wrong with the dump
            continue
        by_detail.setdefault(problem.detail, []).append(problem)
    for detail, problems in by_detail.items():
        if len(problems) > _A_FEW:
            ops = ", ".join(
                dict.fromkeys(problem.op or problem.path.name for problem in problems[:_A_FEW])
            )
            yield f"{side} dump: {len(problems)} files ({ops}, …): {detail}"
            continue
        for problem in problems:
            op = problem.op or ""
            inside = "" if op.replace("/", "_") in problem.path.name else f" ({op})"
            yield f"{side} dump: {problem.path.name}{inside}: {detail}"


def overflow_doubt(device: DumpIndex) -> str:
    """What has to be said before a verdict where the device recorded overflows; "" if it did not:
    what follows from an overflow is no error of arithmetic."""
    places = [f"{_place(record)} ({record.text()})" for record in device.overflows]
    if not places:
        return ""
    more = f" and {len(places) - _A_FEW} more" if len(places) > _A_FEW else ""
    return f"the device recorded an overflow in {', '.join(dict.fromkeys(places[:_A_FEW]))}{more}"


def _place(record: OverflowRecord) -> str:
    return f"op {record.op}" if record.op else f"task {record.task} of stream {record.stream}"


def dump_remarks(side: str, index: DumpIndex) -> Iterator[str]:
    """Remarks for the user about one side's dump, without the damaged files."""
    if index.unmatched:
        names = ", ".join(path.name for path in index.unmatched[:3])
        count = len(index.unmatched)
        belong = "file belongs" if count == 1 else "files belong"
        strange = count > max(_A_FEW, index.files // 2)  # more than belong to an op
        question = f": is --{side} the graph that was run?" if strange else ""
        yield f"{side} dump: {count} {belong} to no op ({names}){question}"
    for record in index.overflows[:_LISTED]:
        yield f"{side} dump: overflow in {_place(record)}, {record.text()}"
    if len(index.overflows) > _LISTED:
        yield f"{side} dump: {len(index.overflows) - _LISTED} more overflows recorded"
    for path, op in index.exceptions:
        yield f"{side} dump: {path.name} was written when {op or 'a task of no known op'} failed"
    if index.superseded:
        names = ", ".join(path.name for path in index.superseded[:3])
        older = counted(len(index.superseded), "older file")
        yield f"{side} dump: {older} passed over, a later dump of the same op counts ({names})"


def statistics_remark(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """How many tensors could only be compared by statistics."""
    count = sum(item.compared and item.detail.startswith(BY_STATISTICS) for item in comparisons)
    if count:
        yield (
            f"{counted(count, 'tensor')} compared by statistics only: their errors are lower "
            "bounds, so what passes may still differ"
        )
