"""Find the part of a graph between starts and ends, and check that it may be cut out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from divergraph.submodel.boundary import Boundaries
from divergraph.submodel.part_graph import PartGraph, WholeGraph
from divergraph.submodel.selection import (
    BoundaryTensor,
    Facts,
    Refusal,
    RefusalRule,
    Selection,
    SelectionRequest,
    nothing_known,
)
from graphstore.columns.coded import Coded
from graphstore.errors import InputError
from graphstore.model import Framework, ModelGraph
from graphstore.traverse.algorithms import ancestors, descendants
from graphstore.traverse.components import components

_MAX_NAMED = 3
_MAX_OFFERS = 8
JUST_SO = SelectionRequest()


class Selector:
    """Selects parts of one graph; creating it takes one pass over the graph."""

    def __init__(self, graph: ModelGraph | PartGraph, facts: Facts = nothing_known) -> None:
        self._graph = WholeGraph(graph) if isinstance(graph, ModelGraph) else graph
        self.arrays, self.ops = self._graph.arrays, self._graph.ops
        self._boundaries = Boundaries(self._graph, facts)
        self._owner = {body.name: body.owner for body in self._graph.header.subgraphs}
        self._loops: tuple[frozenset[str], ...] | None = None

    @property
    def constants(self) -> frozenset[str]:
        """The ops that only make constants."""
        return self._boundaries.constants

    @property
    def types(self) -> Coded[str]:
        """The types of the ops, in execution order."""
        return self._graph.kinds

    def between(
        self, starts: Sequence[str], ends: Sequence[str], wish: SelectionRequest = JUST_SO
    ) -> Selection:
        """All ops on paths from *starts* to *ends* (op ids or, where they are unique, names of
        ops or of tensors they make).

        Raises:
            InputError: no start or end, or an op the graph does not have.
        """
        part = self._between(starts, ends, wish)
        if not part.refused:
            return part
        return replace(part, refused=tuple(self._nearest(one, part, wish) for one in part.refused))

    def _nearest(self, refusal: Refusal, part: Selection, wish: SelectionRequest) -> Refusal:
        """*refusal* with a choice that may be cut: its own offer, or the one offered for that in
        turn; without one if none is found."""
        offered: tuple[tuple[str, ...], tuple[str, ...]] = refusal.starts, refusal.ends
        seen = {(part.starts, part.ends)}
        while any(offered):
            starts, ends = offered[0] or part.starts, offered[1] or part.ends
            if (starts, ends) in seen or len(seen) > _MAX_OFFERS:
                break
            seen.add((starts, ends))
            part = self._between(starts, ends, wish)
            if not part.refused:
                return replace(refusal, starts=starts, ends=ends)
            offered = part.refused[0].starts, part.refused[0].ends
        return replace(refusal, starts=(), ends=())

    def _between(
        self, starts: Sequence[str], ends: Sequence[str], wish: SelectionRequest
    ) -> Selection:
        first = self._known(starts, "start")
        last = self._known(ends, "end")
        refused = [*self._in_one_body(first, last)]
        if not refused:
            refused += self._connected(first, last)
        if refused:
            return Selection(first, last, (), (), (), (), (), refused=tuple(refused))
        return self.closed(first, last, self._lying_between(first, last), wish)

    def hull(self, ops: Iterable[str], wish: SelectionRequest = JUST_SO) -> Selection:
        """The smallest part that holds *ops* and that nothing leaves and re-enters."""
        wanted = set(ops)
        chosen = self._lying_between(tuple(wanted), tuple(wanted))
        return self.closed(*self._edges_of(chosen), chosen, wish)

    def fetch(self, ops: Iterable[str]) -> None:
        """Read *ops* at once that are going to be looked at."""
        self._graph.fetch(ops)

    def taken(self, op: str) -> tuple[BoundaryTensor, ...]:
        """The inputs of one op, from other ops or the model's inputs, without constants."""
        constants = self._boundaries.feeding_constants({op})
        return tuple(self._boundaries.going_in({op}, constants, {op}))

    def at_root(self, op: str) -> str:
        """The op of the root graph that owns the body *op* is in; itself if it is in none."""
        while (body := self._graph.subgraph(op)) and self._owner.get(body):
            op = self._owner[body]
        return op

    def _edges_of(self, chosen: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The first and the last ops of a part."""
        chosen = (chosen - self._boundaries.constants) or chosen
        parents = {op: self._boundaries.parents(op) & chosen for op in chosen}
        used = set().union(*parents.values()) if parents else set()
        ordered = self._boundaries.in_order(chosen)
        return (
            tuple(op for op in ordered if not parents[op]),
            tuple(op for op in ordered if op not in used),
        )

    def closed(
        self, starts: Sequence[str], ends: Sequence[str], chosen: set[str], wish: SelectionRequest
    ) -> Selection:
        """The part *chosen* with its boundary and everything that is wrong with it."""
        before = set(chosen)
        refused: list[Refusal] = []
        ends_of_it = {*starts, *ends}
        around = [loop for loop in self._all_loops() if not loop & ends_of_it]
        chosen = self._with_wholes(chosen, around)  # the user did not ask for a cut through these
        named = set(chosen)
        if wish.whole:
            chosen = self._with_wholes(chosen, [group for _, group, _ in self._wholes(wish)])
        else:
            refused += self._cuts(starts, ends, chosen, wish)
        added = chosen - before
        if chosen != named:
            starts, ends = self._edges_of(chosen)
        boundary = self._boundaries
        starts, ends, chosen = self._without_fed(starts, ends, chosen)
        constants = boundary.feeding_constants(chosen)
        inputs = list(boundary.going_in(chosen, constants, set(starts)))
        outputs = list(boundary.coming_out(chosen, set(ends), all_of_them=wish.all_outputs))
        refused += self._nothing(chosen, outputs)
        refused += boundary.without_form(inputs, outputs, ends)
        if wish.data:
            refused += boundary.without_data(inputs)
        return Selection(
            tuple(starts),
            tuple(ends),
            self._boundaries.in_order(chosen),
            self._boundaries.in_order(constants),
            boundary.weights(chosen | constants),
            tuple(inputs),
            tuple(outputs),
            self._boundaries.in_order(added),
            tuple(boundary.notes(inputs, added)),
            tuple(refused),
        )

    def _nothing(self, chosen: set[str], outputs: Sequence[BoundaryTensor]) -> Iterable[Refusal]:
        """A refusal if all of *chosen* only stands for the model's inputs, or gives nothing."""
        if chosen and not outputs:
            last = self._edges_of(chosen)[1]
            above = set().union(*map(self._boundaries.parents, last))
            ends = self._boundaries.in_order(above - self._boundaries.constants)
            sentence = f"nothing comes out of {', '.join(last[:_MAX_NAMED])}"
            yield Refusal(RefusalRule.NOTHING, sentence, (), ends)
        elif chosen and self._boundaries.fed(chosen) == chosen:
            named = ", ".join(self._boundaries.in_order(chosen)[:_MAX_NAMED])
            users = self._boundaries.in_order(self._boundaries.children(chosen) - chosen)
            sentence = f"{named} only stands for what the model is given: nothing is computed there"
            yield Refusal(RefusalRule.NOTHING, sentence, users[:1], users[:1])

    def _without_fed(
        self, starts: Sequence[str], ends: Sequence[str], chosen: set[str]
    ) -> tuple[Sequence[str], Sequence[str], set[str]]:
        """The part without ops that only stand for the model's inputs: their outputs become inputs
        of the part."""
        fed = self._boundaries.fed(chosen)
        if not fed or fed == chosen:
            return starts, ends, chosen
        chosen = chosen - fed
        users = {op for op in chosen if fed & self._boundaries.parents(op)}
        first = self._boundaries.in_order({*starts, *users} - fed)
        last = tuple(op for op in ends if op not in fed) or self._edges_of(chosen)[1]
        return first, last, chosen

    # what was asked for

    def _known(self, names: Sequence[str], what: str) -> tuple[str, ...]:
        if not names:
            raise InputError(f"no {what} op is given", hint=f"--{what} OP names one")
        return tuple(dict.fromkeys(self._id_of(name) for name in names))

    def _id_of(self, name: str) -> str:
        if name in self.ops:
            return name
        named = self._graph.named(name) or self._graph.makers(name)
        if len(named) == 1:
            return named[0]
        if named:
            raise InputError(
                f"{len(named)} ops are called {name!r}", hint=f"say which: {', '.join(named[:3])}"
            )
        matches = difflib.get_close_matches(name, list(self.ops), 3, 0.5)
        hint = f"did you mean {', '.join(matches)}?" if matches else "`divergraph ops` lists them"
        raise InputError(f"the graph has no op {name!r}", hint=hint)

    def _in_one_body(self, starts: Sequence[str], ends: Sequence[str]) -> list[Refusal]:
        bodies = {self._graph.subgraph(op) for op in (*starts, *ends)}
        alone = (
            self._graph.header.framework is not Framework.ONNX
        )  # only there bodies are no models
        if len(bodies) == 1 and (alone or "" in bodies):
            return []
        root = [self.at_root(op) for op in starts]
        last = [self.at_root(op) for op in ends]
        inner = next(op for op in (*starts, *ends) if self._graph.subgraph(op))
        why = "but another start or end is outside it" if len(bodies) > 1 else "not to be run alone"
        sentence = (
            f"{inner} is in the body {self._graph.subgraph(inner)!r} of {self.at_root(inner)}, "
            f"{why}: a body goes whole"
        )
        offer = tuple(dict.fromkeys(root)), tuple(dict.fromkeys(last))
        return [Refusal(RefusalRule.BODY_CUT, sentence, *offer)]

    def _connected(self, starts: Sequence[str], ends: Sequence[str]) -> list[Refusal]:
        refused: list[Refusal] = []
        number = self.arrays.number
        reach = {op: self._down((op,)) for op in starts}
        refused += [
            self._no_path(starts[0], end)
            for end in ends
            if not any(number[end] in reach[op] for op in starts)
        ]
        for start in starts:
            if not any(number[end] in reach[start] for end in ends):
                refusal = self._no_path(start, ends[0])
                if refusal not in refused:
                    refused.append(refusal)
        return refused

    def _no_path(self, start: str, end: str) -> Refusal:
        if self.arrays.number[start] in self._down((end,)):
            sentence = f"the end {end} comes before the start {start}: {end} feeds {start}"
            return Refusal(RefusalRule.TURNED_ROUND, sentence, (end,), (start,))
        number = self.arrays.number
        both = self._up((start,)) & self._up((end,))
        joint = self.arrays.ids[max(both)] if both else ""
        sentence = f"no path leads from {start} to {end}"
        if joint:
            return Refusal(
                RefusalRule.NO_WAY, f"{sentence}; both come from {joint}", (joint,), (end,)
            )
        later = self._down((start,)) & self._down((end,))
        if later:
            meeting = self.arrays.ids[min(later)]
            sentence = f"{sentence}; they meet in {meeting}"
            return Refusal(RefusalRule.NO_WAY, sentence, (start, end), (meeting,))
        assert start in number
        return Refusal(RefusalRule.NO_WAY, f"{sentence}: they are in unconnected parts")

    # the set

    def _down(self, ops: Sequence[str]) -> set[int]:
        numbers = [self.arrays.number[op] for op in ops]
        return {*numbers, *descendants(self.arrays, numbers).tolist()}

    def _up(self, ops: Sequence[str]) -> set[int]:
        numbers = [self.arrays.number[op] for op in ops]
        return {*numbers, *ancestors(self.arrays, numbers).tolist()}

    def _lying_between(self, starts: Sequence[str], ends: Sequence[str]) -> set[str]:
        """Ops of one body on paths from starts to ends; the bodies they own go with them."""
        body = self._graph.subgraph(starts[0])
        numbers = self._down(starts) & self._up(ends)
        ids = {self.arrays.ids[number] for number in numbers}
        return {op for op in ids if self._graph.subgraph(op) == body}

    # what must stay together

    def _wholes(self, wish: SelectionRequest) -> Iterable[tuple[RefusalRule, frozenset[str], str]]:
        for loop in self._all_loops():
            yield RefusalRule.LOOP_CUT, loop, min(loop, key=self.arrays.number.__getitem__)
        for name, group in dict(wish.groups).items():
            # Constants of a fused op go along with whatever takes them.
            constants = self._boundaries.constants
            ops = frozenset(op for op in group if op in self.ops and op not in constants)
            if len(ops) > 1:
                yield RefusalRule.FUSED_CUT, ops, name

    def _all_loops(self) -> tuple[frozenset[str], ...]:
        if self._loops is None:
            self._loops = (*self._cycles(), *self._graph.frames())
        return self._loops

    def _cycles(self) -> Iterable[frozenset[str]]:
        """The ops that feed each other in a loop."""
        arrays = self.arrays
        targets = np.repeat(np.arange(len(arrays.ids)), np.diff(arrays.predecessor_start))
        if np.all(arrays.predecessor_ops < targets):
            return
        of = np.asarray(components(arrays.successor_start.tolist(), arrays.successor_ops.tolist()))
        sizes = np.bincount(of, minlength=1) if len(of) else np.zeros(1, np.int64)
        for loop in np.flatnonzero(sizes > 1).tolist():
            yield frozenset(arrays.ids[number] for number in np.flatnonzero(of == loop).tolist())

    def _with_wholes(self, chosen: set[str], wholes: Sequence[frozenset[str]]) -> set[str]:
        while True:
            more = {op for group in wholes if group & chosen for op in group} - chosen
            if not more:
                return chosen
            both = tuple(chosen | more)
            chosen = self._lying_between(both, both)

    def _cuts(
        self, starts: Sequence[str], ends: Sequence[str], chosen: set[str], wish: SelectionRequest
    ) -> Iterable[Refusal]:
        for rule, group, name in self._wholes(wish):
            missing = self._boundaries.in_order(group - chosen)
            if not missing or not group & chosen:
                continue
            listed = ", ".join(missing[:_MAX_NAMED]) + (" ..." if missing[_MAX_NAMED:] else "")
            what = f"the loop at {name}" if rule is RefusalRule.LOOP_CUT else f"the fused op {name}"
            between = self._lying_between((*starts, *group), (*ends, *group))
            sentence = f"it cuts {what}: {listed} would stay outside"
            yield Refusal(rule, sentence, *self._edges_of(between))
