"""Link the two graphs: by attributes and names, then by the dumped values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from divergraph.execute.contract import DEFAULT_MEMORY, Executor
from divergraph.execute.installed import open_executor
from divergraph.graphs.lineage import Lineage, Unmatched, link_graphs
from divergraph.graphs.matching import NO_PINS, MatchSources, match_more, read_pins
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.jobs.progress import Progress
from divergraph.text.words import counted
from graphstore.errors import ExecutionError
from graphstore.model import LineageRule, ModelGraph, Reason, TensorMatch

_FOUND = {
    LineageRule.PINNED: "pinned",
    LineageRule.SAME_VALUES: "by their values",
    LineageRule.SAME_VALUES_REORDERED: "by their values in another order",
    LineageRule.RE_EXECUTED: "by re-running the original ops",
    LineageRule.SAME_STRUCTURE: "by structure",
}
_NAMED = frozenset({LineageRule.SAME_TENSOR, LineageRule.SAME_NAME})


@dataclass(frozen=True, slots=True)
class Linked:
    """The lineage; ``notes`` says what was matched by other means than names."""

    lineage: Lineage
    notes: tuple[str, ...]


def linked_graphs(
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    match_file: Path | None,
    progress: Progress,
    memory: int = DEFAULT_MEMORY,
    link: Callable[[ModelGraph, ModelGraph], Lineage] = link_graphs,
) -> Linked:
    """The lineage of *device*; the pins of *match_file* (None: there is none) take precedence.
    About *memory* bytes of values are held at once. *link* gives what the graphs alone tell.

    Raises:
        ConfigError: the match file is wrong.
    """
    lineage = link(golden.graph, device.graph)
    pins = NO_PINS
    if match_file is not None:
        pins = read_pins(match_file, golden.graph, device.graph)
    trouble: list[str] = []

    def executor() -> Executor | None:
        try:
            return open_executor(golden.path, golden.graph)
        except ExecutionError as error:
            trouble.append(f"original ops are not re-run for matching: {error}")
            return None

    sources = MatchSources(golden_dump.index, device_dump.index, executor, pins, memory)
    lineage = match_more(lineage, device.graph, sources, progress)
    return Linked(lineage, (*trouble, *_notes(lineage)))


def _notes(lineage: Lineage) -> Iterator[str]:
    matches = [match for match in lineage.outputs.values() if isinstance(match, TensorMatch)]
    by_rule = Counter(match.rule for match in matches)
    moved = sum(match.reorder is not None and match.rule in _NAMED for match in matches)
    notes = [f"{moved} by name, with their axes in another order"] if moved else []
    notes += [
        f"{by_rule[rule]} {words}"
        + (
            f" (confidence from {_lowest_confidence(matches, rule):.2f})"
            if _lowest_confidence(matches, rule) < 1
            else ""
        )
        for rule, words in _FOUND.items()
        if by_rule[rule]
    ]
    if notes:
        yield f"tensors matched otherwise than by name alone: {', '.join(notes)}"
    unsure = [
        unmatched
        for unmatched in lineage.outputs.values()
        if isinstance(unmatched, Unmatched) and unmatched.reason is Reason.LOW_CONFIDENCE
    ]
    if unsure:
        yield (
            f"{counted(len(unsure), 'tensor')} may have a counterpart but the evidence is weak, so "
            f"they were not compared: pin them with --match (first: {unsure[0].detail})"
        )


def _lowest_confidence(matches: list[TensorMatch], rule: LineageRule) -> float:
    return min((match.confidence for match in matches if match.rule is rule), default=1.0)
