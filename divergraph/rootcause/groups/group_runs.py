"""Groups run on the device's own values: their feeds, and the references r = f(d_in)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from divergraph.execute.contract import Array, Executor, RunnableSubgraph
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.groups.op_graph import OpGraph
from divergraph.text.words import counted
from divergraph.values.run_values import RunValues
from graphstore.model import Comparison, TensorRef

SHARE_OF_MEMORY = 8
"""The part of the memory a chunk's values and weights may take: emulations and tolerances need
several times as much again."""
_HELD_SHARE = 4
"""The part of the memory that samples kept for several passes may take."""


@dataclass(frozen=True, slots=True)
class GroupSample:
    """A group that was run: its feeds ``given`` by name, the reference and the device's output."""

    group: Group
    given: Mapping[str, Array]
    reference: Array
    device: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        return sum(array.nbytes for array in (self.reference, self.device, *self.given.values()))


Seen = Callable[[GroupSample], GroupSample]


@dataclass
class GroupRuns:
    """Runs groups of the *golden* graph on the device's values. ``assumed`` collects, by output,
    the graph inputs whose values came from golden; ``fed`` has inputs of the model by name that the
    device did not dump and that were found by other ways."""

    executor: Executor
    golden: OpGraph
    values: RunValues
    compared: Mapping[TensorRef, Comparison]
    memory: int
    assumed: dict[TensorRef, str] = field(default_factory=dict)
    fed: Mapping[str, Array] = field(default_factory=dict)
    _constants: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        constants = self.golden.graph.constants
        self._constants = {constant.tensor.name: constant.nbytes or 0 for constant in constants}

    def chunks(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """*groups* in order, in chunks whose values and weights fit an eighth of the memory."""
        chunk: list[Group] = []
        weights: set[str] = set()
        chunk_bytes = 0
        for group in groups:
            own = self.golden.constants_read(group.ops)
            size = self._size(group, own - weights)
            if chunk and chunk_bytes + size > self.memory // SHARE_OF_MEMORY:
                yield chunk
                chunk, weights, chunk_bytes = [], set(), 0
                size = self._size(group, own)
            chunk.append(group)
            weights |= own
            chunk_bytes += size
        if chunk:
            yield chunk

    def remarks(self, groups: Sequence[Group]) -> Iterator[str]:
        """A warning if single groups need more memory than is allowed."""
        sizes = {
            group.output: self._size(group, self.golden.constants_read(group.ops))
            for group in groups
        }
        large = [ref for ref, size in sizes.items() if size > self.memory]
        if large:
            largest = max(large, key=sizes.__getitem__)
            others = f"; so do {counted(len(large) - 1, 'other')}" if large[1:] else ""
            yield (
                f"{largest.op} alone takes about {sizes[largest] >> 20} MiB, more than the "
                f"{self.memory >> 20} of --memory{others}"
            )

    def fit(self, groups: Sequence[Group]) -> bool:
        """Whether all values of *groups* may be kept at once."""
        return sum(self._size(group) for group in groups) <= self.memory // _HELD_SHARE

    def _size(self, group: Group, weights: Iterable[str] = ()) -> int:
        """About how many bytes a group needs: 16 for each element (float32 values, reference and
        emulation, and temporaries), and *weights* twice, as the device rounds them, too."""
        refs = (group.output, *group.measured)
        values = sum(prod(self.compared[ref].shape or ()) for ref in refs)
        return 16 * values + 2 * sum(self._constants[name] for name in weights)

    def feeds(self, group: Group) -> tuple[dict[str, Array], str]:
        """The feeds of *group* by golden tensor name, and the name of the first one without a
        value ("" if all have one)."""
        feeds: dict[str, Array] = {}
        for feed in group.feeds:
            value: Array | None
            if feed.tensor in self.fed:
                value = self.fed[feed.tensor]
            elif feed.device is not None:
                value = self.values.device(feed.device)
            elif feed.golden is not None:
                value = self.values.golden(feed.golden)
            else:
                value = self.values.graph_input(feed.tensor)
                if self.values.device_input(feed.tensor) is None:
                    self.assumed[group.output] = feed.tensor
            if value is None:
                return feeds, feed.tensor
            feeds[feed.tensor] = value
        return feeds, ""

    def references(
        self, groups: Sequence[Group], feeds: Sequence[Mapping[str, Array]]
    ) -> list[Array | str]:
        """The reference of each group in golden's shape and dtype, or why there is none."""
        subgraphs = [
            RunnableSubgraph(
                str(number),
                tuple(feed.tensor for feed in group.feeds),
                (self.golden.name(group.golden),),
            )
            for number, group in enumerate(groups)
            if group.ops
        ]
        # A variable is not computed: its reference is the value in the golden dump.
        fed_values = [
            feeds[n].get(self.golden.name(group.golden)) for n, group in enumerate(groups)
        ]
        references: list[Array | str] = [
            "it was not run" if one is None else one for one in fed_values
        ]
        for result in self.executor.run_subgraphs(
            subgraphs, lambda subgraph: feeds[int(subgraph.key)], memory=self.memory // 2
        ):
            value = next(iter(result.values.values()), None)
            number = int(result.key)
            references[number] = (result.failure or "it gave no output") if value is None else value
        return references

    def handed_on(self, group: Group) -> GroupSample | None:
        """The sample of a group that only hands a value on: its reference is that value."""
        value = None if group.is_passthrough is None else self.values.device(group.is_passthrough)
        device = self.values.device(group.output)
        if value is None or device is None:
            return None
        return GroupSample(group, {self.golden.name(group.golden): value}, value, device)

    def samples(self, groups: Sequence[Group], seen: Seen = lambda sample: sample) -> Samples:
        """The samples of *groups*, each as it is *seen*, to be gone through any number of times."""
        return Samples(self, groups, seen)

    def run(self, groups: Sequence[Group]) -> Iterator[GroupSample]:
        """The samples of those groups that can be run, for one pass: no chunk is kept. What gives
        nothing but NaN and infinities, as all behind a NaN may, is no sample."""
        for chunk in self.chunks(groups):
            fed = [(group, *self.feeds(group)) for group in chunk]
            runnable = [
                (group, feeds_of_group) for group, feeds_of_group, missing in fed if not missing
            ]
            references = self.references(
                [group for group, _ in runnable], [feeds_of_group for _, feeds_of_group in runnable]
            )
            for (group, feeds_of_group), reference in zip(runnable, references, strict=True):
                device = self.values.device(group.output)
                if device is not None and not isinstance(reference, str) and _is_finite(reference):
                    yield GroupSample(group, feeds_of_group, reference, device)


def _is_finite(values: Array) -> bool:
    return values.dtype.kind != "f" or not values.size or bool(np.isfinite(values).any())


@dataclass
class Samples:
    """Samples of *groups* for several passes: kept if there is memory for all of them, else run
    again in each pass."""

    runs: GroupRuns
    groups: Sequence[Group]
    seen: Seen = lambda sample: sample
    _held: list[GroupSample] | None = None

    def __iter__(self) -> Iterator[GroupSample]:
        if self._held is None and self.runs.fit(self.groups):
            self._held = list(map(self.seen, self.runs.run(self.groups)))
        return (
            map(self.seen, self.runs.run(self.groups)) if self._held is None else iter(self._held)
        )

    def of(self, groups: Sequence[Group]) -> Samples:
        """The samples of a subset of the groups."""
        wanted = {group.output for group in groups}
        samples = self._held
        chosen = (
            None
            if samples is None
            else [sample for sample in samples if sample.group.output in wanted]
        )
        return Samples(self.runs, groups, self.seen, chosen)
