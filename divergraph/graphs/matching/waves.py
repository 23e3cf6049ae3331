"""Match outwards from what is known: by re-running originals, by what follows, by structure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from divergraph.execute.contract import Executor
from divergraph.graphs.lineage.linking import behind_transpose
from divergraph.graphs.lineage.split_originals import HANDING_ON
from divergraph.graphs.matching.by_value import lie_alike
from divergraph.graphs.matching.consequences import Consequences, GuessedMatch
from divergraph.graphs.matching.golden_reach import ReachedPart
from divergraph.graphs.matching.judging import Candidate, CounterpartChoice
from divergraph.graphs.matching.matched import TRANSPOSE, KnownBefore, Matched
from divergraph.graphs.matching.re_execution import ReExecution
from divergraph.jobs.progress import Progress
from divergraph.values.closeness import FAR, distance
from divergraph.values.zero_points import is_8_bit
from graphstore.model import LineageRule, ModelGraph, TensorMatch, TensorRef

_STRUCTURE_ALONE = 0.8
_CONTRADICTED = 0.5
_MOST_PARTS = 60
"""Golden tensors computed for one device tensor, the nearest ones."""
_TIMES_THE_MODEL = 30
"""How many ops are run at most across tensors without a counterpart, in runs of the whole model."""
_MOST_GUESSES = 16
"""Golden tensors tried in the place of one device tensor, the nearest ones."""
_ONLY_MOVING = HANDING_ON | frozenset(
    (
        *("Concat", "ConcatV2", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND"),
        *("GatherV2", "Pack", "Pad", "Shape", "Slice", "SpaceToDepth", "Split", "StridedSlice"),
        *("Tile", "Unpack"),
    )
)
"""Ops without arithmetic. If the original gives other values on the same inputs, they choose other
elements and are rather another op than a faulty one, unless what follows proves the contrary."""


class Waves:
    """The rules that need the counterparts of an op's inputs; *executor* re-runs originals."""

    def __init__(
        self,
        matched: Matched,
        device: ModelGraph,
        open_tensors: list[TensorRef],
        executor: Executor | None,
        memory: int,
    ) -> None:
        self._matched = matched
        self._open = open_tensors
        self._executor = executor
        self._device_values = matched.device_values
        self._golden_values = matched.golden_values
        self._reach = matched.reach
        self._rerun = ReExecution(self._reach, self._device_values, self._golden_values, memory)
        self._consequences = Consequences(matched, device.readers(), self._rerun)
        self._left = _TIMES_THE_MODEL * len(self._reach.ops)
        self._guessed: set[GuessedMatch] = set()

    def run(self, progress: Progress) -> None:
        """Match all that can be matched."""
        tried: set[tuple[TensorRef, object]] = set()
        across = False
        while True:
            ready = self._nearest(
                entry
                for entry in self._ready(across=across)
                if (entry[0], entry[1].key) not in tried
            )
            if ready:
                tried.update((ref, known_before.key) for ref, known_before in ready)
                self._run_wave(ready)
                progress.step(len(ready))
            elif not (
                self._pass_on_transposed() or self._by_consequences() or self._by_structure()
            ):
                # What stands for nothing, such as sums of integers, is inside of an original.
                if across or self._executor is None:
                    return
                across = True

    def _nearest(
        self, ready: Iterable[tuple[TensorRef, KnownBefore]]
    ) -> list[tuple[TensorRef, KnownBefore]]:
        """Those with the fewest tensors between them and what is known: they may tell the rest."""
        listed = list(ready)
        if not listed or self._left < 0:
            return []
        fewest = min(known_before.skipped for _, known_before in listed)
        return [entry for entry in listed if entry[1].skipped == fewest]

    def _ready(self, *, across: bool = False) -> list[tuple[TensorRef, KnownBefore]]:
        """The open tensors whose inputs are known; *across*: or what these were computed from."""
        ops, known_before = self._matched.device_ops, self._matched.known
        return [
            (ref, before)
            for ref in self._open
            if self._matched.is_open(ref)
            and (before := known_before(ops[ref.op], across=across)) is not None
        ]

    def _run_wave(self, ready: Sequence[tuple[TensorRef, KnownBefore]]) -> None:
        images = self._matched.images()
        jobs: dict[str, tuple[TensorRef, ReachedPart]] = {}
        for ref, known_before in ready:
            for part in islice(self._parts(ref, known_before, images), _MOST_PARTS):
                self._left -= len(part.ops) if known_before.skipped else 0
                jobs[str(len(jobs))] = (ref, part)
        candidates_of: Mapping[TensorRef, list[Candidate]] = {}
        if self._executor is not None:
            candidates_of = self._rerun.candidates(self._executor, jobs, images)
        for ref, known_before in ready:
            candidates = [
                *candidates_of.get(ref, ()),
                *self._handed_on(ref, known_before.matches.values()),
            ]
            judgement = self._matched.judged(
                ref,
                [
                    candidate
                    for candidate in candidates
                    if not self._matched.is_worse_than_another(ref, candidate)
                ],
            )
            if judgement is not None and not self._matched.belongs_to_input(ref, judgement.best):
                self._matched.settle(ref, LineageRule.RE_EXECUTED, judgement)

    def _parts(
        self, ref: TensorRef, known_before: KnownBefore, images: Mapping[TensorRef, TensorMatch]
    ) -> Iterator[ReachedPart]:
        """The golden parts behind what is known that *ref* may be the output of."""
        size = self._device_values.size(ref)
        if size is None:
            return
        for part in self._reach.behind(
            known_before.matches.keys(), images.keys(), known_before.fed
        ):
            golden_size = self._golden_values.size(part.output)
            same = golden_size is None or golden_size == size
            if same and self._matched.pins.allows(ref, part.output):
                yield part

    def _handed_on(self, ref: TensorRef, matches: Collection[TensorMatch]) -> Iterator[Candidate]:
        """Candidates that are the op's own inputs: it may do nothing, or next to nothing."""
        device = self._device_values.of(ref)
        if device is None or (is_8_bit(device) and self._kind(ref)[0] not in HANDING_ON):
            return  # equal bytes with another scale are other values
        for number, match in enumerate(matches):
            value = self._device_values.of(match.device)
            if value is not None and lie_alike(device, value):
                distance_to = distance(device, value)
                if distance_to < FAR:
                    yield Candidate(match.golden, distance_to, match.reorder, family=-1 - number)

    def _pass_on_transposed(self) -> bool:
        """Match added Transposes to the counterpart of their input, in the permuted order. True if
        there were any."""
        before = len(self._open)
        for ref in [ref for ref in self._open if self._matched.is_open(ref)]:
            op = self._matched.device_ops[ref.op]
            source = op.source()
            match = None if source is None or op.type != TRANSPOSE else self._matched.image(source)
            moved = None if match is None else behind_transpose(match, op)
            if moved is not None and self._matched.pins.allows(ref, moved.golden):
                order = None if self._lies_as_golden(moved, source) else moved.reorder
                rule = LineageRule.THROUGH_INSERTED
                self._matched.put(replace(moved, rule=rule, reorder=order))
                self._open.remove(ref)
        return len(self._open) < before

    def _lies_as_golden(self, moved: TensorMatch, source: TensorRef | None) -> bool:
        """Whether a Transpose gives golden's own order and not that of *moved*: the order of an
        input that was not dumped is not known from names."""
        if moved.reorder is None or (source is not None and self._device_values.has(source)):
            return moved.reorder is None
        device, golden = self._device_values.of(moved.device), self._golden_values.of(moved.golden)
        if device is None or golden is None or device.shape != golden.shape:
            return False
        permuted = device.transpose(moved.reorder.axes)
        if permuted.shape != golden.shape:
            return True
        return distance(device, golden) < distance(permuted, golden)

    def _by_consequences(self) -> bool:
        """Match what nothing reproduces by what follows from it; True if anything was."""
        if self._executor is None:
            return False
        images, golden_refs = self._matched.images(), self._matched.taken()
        guesses: dict[GuessedMatch, None] = {}
        for ref, known_before in self._ready():
            following = self._consequences.following(ref)
            if not following:
                continue
            guesses_of_refs = (
                GuessedMatch(ref, part.output, following)
                for part in self._parts(ref, known_before, images)
            )
            free = (guess for guess in guesses_of_refs if guess.golden not in golden_refs)
            new = (guess for guess in islice(free, _MOST_GUESSES) if guess not in self._guessed)
            guesses.update(dict.fromkeys(new))
        self._guessed.update(guesses)
        tried_candidates = self._consequences.tried(self._executor, list(guesses), images)
        settled = False
        for ref, candidates in tried_candidates.items():
            judgement = self._matched.judged(ref, candidates)
            if judgement is not None:
                settled |= self._matched.settle(ref, LineageRule.RE_EXECUTED, judgement)
        return settled

    def _by_structure(self) -> bool:
        """Match by structure alone what has its golden op for itself; True if anything was."""
        ready = self._ready()
        alike = Counter((self._kind(ref), known_before.key) for ref, known_before in ready)
        settled = False
        for ref, known_before in ready:
            same = self._same_structure(ref, known_before)
            if same is None or alike[self._kind(ref), known_before.key] > 1:
                continue
            sure = _CONTRADICTED if self._kind(ref)[0] in _ONLY_MOVING else _STRUCTURE_ALONE
            choice = CounterpartChoice(same, sure)
            settled |= self._matched.settle(ref, LineageRule.SAME_STRUCTURE, choice)
        return settled

    def _kind(self, ref: TensorRef) -> tuple[str, int]:
        return self._matched.device_ops[ref.op].type, ref.port

    def _same_structure(self, ref: TensorRef, known_before: KnownBefore) -> Candidate | None:
        """The only golden op of this type on exactly these inputs, if it has no counterpart yet."""
        op = self._matched.device_ops[ref.op]
        golden_refs = self._matched.taken()
        size = self._device_values.size(ref)
        fitting = [
            TensorRef(user, ref.port)
            for user in dict.fromkeys(
                user
                for golden_ref in known_before.matches
                for user in self._reach.users_of_values(golden_ref)
            )
            if self._reach.ops[user].type == op.type
            and self._uses_just(user, known_before.matches.keys())
        ]
        free = [
            golden_ref
            for golden_ref in fitting
            if golden_ref not in golden_refs
            and self._matched.pins.allows(ref, golden_ref)
            and ref.port < len(self._reach.ops[golden_ref.op].outputs)
            and self._golden_values.size(golden_ref) in (None, size)
        ]
        return Candidate(free[0], 0.0) if len(free) == 1 else None

    def _uses_just(self, golden_op: str, golden_refs: Collection[TensorRef]) -> bool:
        used = self._reach.ops[golden_op].takes
        computed = {ref for ref in used if not self._matched.is_golden_constant(ref)}
        root = self._reach.root
        return {root(ref) for ref in computed} == {root(ref) for ref in golden_refs}
