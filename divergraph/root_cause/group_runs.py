"""Groups run on the device's own values: what they are fed, and f(d_in)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from divergraph.execution.contract import Array, Executor, Piece
from divergraph.root_cause.arithmetic import Sample
from divergraph.root_cause.groups import Group
from divergraph.root_cause.op_graph import OpGraph
from divergraph.root_cause.values import RunValues
from graphstore.model import Comparison, TensorRef

_SHARE_OF_MEMORY = 8


@dataclass
class GroupRuns:
    """Runs groups of the *golden* graph; ``assumed`` collects, by output, the inputs of the
    model that were taken from the golden side."""

    executor: Executor
    golden: OpGraph
    values: RunValues
    compared: Mapping[TensorRef, Comparison]
    memory: int
    assumed: dict[TensorRef, str] = field(default_factory=dict)

    def chunks(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """*groups* in parts whose values fit into a share of the memory."""
        chunk: list[Group] = []
        held = 0
        for group in groups:
            size = 16 * sum(
                prod(self.compared[ref].shape or ()) for ref in (group.output, *group.measured)
            )
            if chunk and held + size > self.memory // _SHARE_OF_MEMORY:
                yield chunk
                chunk, held = [], 0
            chunk.append(group)
            held += size
        if chunk:
            yield chunk

    def feeds(self, group: Group) -> tuple[dict[str, Array], str]:
        """What *group* is fed, and the first tensor without a value."""
        given: dict[str, Array] = {}
        for feed in group.feeds:
            if feed.device is not None:
                value = self.values.device(feed.device)
            elif feed.golden is not None:
                value = self.values.golden(feed.golden)
            else:
                value = self.values.graph_input(feed.tensor)
                if self.values.device_input(feed.tensor) is None:
                    self.assumed[group.output] = feed.tensor
            if value is None:
                return given, feed.tensor
            given[feed.tensor] = value
        return given, ""

    def references(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Array | str]:
        """f(d_in) of each group, or why there is none."""
        pieces = [
            Piece(
                str(number),
                tuple(feed.tensor for feed in group.feeds),
                (self.golden.name(group.golden),),
            )
            for number, group in enumerate(groups)
            if group.ops
        ]
        # A variable is what the golden dump says it was.
        given = [feeds[n].get(self.golden.name(each.golden)) for n, each in enumerate(groups)]
        found: list[Array | str] = ["it was not run" if one is None else one for one in given]
        for result in self.executor.run_pieces(
            pieces, lambda piece: feeds[int(piece.key)], memory=self.memory // 2
        ):
            value = next(iter(result.values.values()), None)
            number = int(result.key)
            found[number] = (result.failure or "it gave nothing") if value is None else value
        return found

    def samples(self, groups: Sequence[Group]) -> Iterator[Sample]:
        """Groups with what they were fed, what the device and what the original made of it."""
        for chunk in self.chunks(groups):
            fed = [(group, *self.feeds(group)) for group in chunk]
            runnable = [(group, given) for group, given, missing in fed if not missing]
            references = self.references(
                [group for group, _ in runnable], [given for _, given in runnable]
            )
            for (group, given), reference in zip(runnable, references, strict=True):
                device = self.values.device(group.output)
                if device is not None and not isinstance(reference, str):
                    yield Sample(group, given, reference, device)
