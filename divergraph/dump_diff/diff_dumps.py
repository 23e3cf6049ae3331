"""Everything of ``divergraph diff``: find, pair, measure, judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import overload

from divergraph.dump_diff.fused_names import fused_notes
from divergraph.dump_diff.pairing import NamedPair, NamePairing, pair_by_name
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.metrics.limits.thresholds import Thresholds, load_thresholds
from divergraph.metrics.measure import Wanted
from divergraph.metrics.pairs.detailed_metrics import detailed_metrics
from divergraph.metrics.pairs.many_pairs import DEFAULT_WORKERS, Workers, measure_all
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.small_files import NpyFiles
from divergraph.metrics.pairs.tensor_pairs import AnyPair
from divergraph.metrics.pairs.work import MeasureWork
from divergraph.text.words import counted
from divergraph.values.tensor_pair import TensorPair
from graphstore.errors import InputError
from graphstore.model import Level, Metric, Reason
from importers.archives import unpack_hint
from importers.dumps.bare.index import BareDump, BareTensor, find_tensors
from importers.dumps.contract import NO_FORM, RawForm

DEFAULT_LIMIT = 0.001
"""What an element may differ, absolutely and relatively, where the user gives one of both."""
_CLOSER = 2 << 20
"""Elements that get a closer look unasked; the one pair of a call gets one in any case."""


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """What to hold against each other; the first is the device's side.

    With ``atol`` or ``rtol`` an element is bad if |x - y| > atol + rtol |y|, and a pair
    with a bad element is over its limit. ``tensors`` is a pattern of names, ``form`` what
    is known of raw files.
    """

    device: Path
    golden: Path
    thresholds: Path | None = None
    atol: float | None = None
    rtol: float | None = None
    tensors: str | None = None
    form: RawForm = NO_FORM
    workers: Workers = DEFAULT_WORKERS

    @property
    def wanted(self) -> Wanted:
        """The limits of one element."""
        if self.atol is None and self.rtol is None:
            return Wanted()
        return Wanted(
            DEFAULT_LIMIT if self.atol is None else self.atol,
            DEFAULT_LIMIT if self.rtol is None else self.rtol,
        )

    @property
    def by_elements(self) -> bool:
        """True if the user said how much an element may differ."""
        return self.atol is not None or self.rtol is not None


@dataclass(frozen=True, slots=True)
class PairDiff:
    """One pair with what came of it. ``level`` is None where nothing could be measured;
    ``limit`` says which rule decided it."""

    named: NamedPair
    found: Measurement
    level: Level | None = None
    failed: tuple[Metric, ...] = ()
    limit: str = ""

    @property
    def name(self) -> str:
        """What the pair is shown as."""
        return self.named.name

    @property
    def device(self) -> Path:
        """The device's file."""
        return self.named.device.path

    @property
    def golden(self) -> Path:
        """The golden file."""
        return self.named.golden.path

    @property
    def pair(self) -> TensorPair | None:
        """What was measured; None for a damaged file."""
        return _tensor_pair(self.named)


@dataclass(frozen=True, slots=True)
class DiffResult:
    """``unpaired`` names the tensors only one side has; ``notes`` are remarks."""

    pairs: tuple[PairDiff, ...]
    device_only: tuple[str, ...] = ()
    golden_only: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def compared(self) -> int:
        """Pairs that were measured."""
        return sum(pair.found.metrics is not None for pair in self.pairs)

    @property
    def over(self) -> int:
        """Pairs over a limit."""
        return sum(pair.level is Level.FAIL for pair in self.pairs)

    @property
    def warned(self) -> int:
        """Pairs past a warning level only."""
        return sum(pair.level is Level.WARN for pair in self.pairs)

    @property
    def not_compared(self) -> int:
        """Pairs that could not be measured."""
        return len(self.pairs) - self.compared


def diff_dumps(request: DiffRequest, progress: Progress = NO_PROGRESS) -> DiffResult:
    """Pair the tensors of both sides by name and compare each pair.

    A damaged tensor is a pair without metrics that says why.

    Raises:
        InputError: a path cannot be used, or no name of one side is on the other.
    """
    thresholds = load_thresholds(request.thresholds)
    progress.stage("finding tensors")
    device, golden = (
        find_tensors(path.absolute(), request.form) for path in (request.device, request.golden)
    )
    pairing = _paired(request, device, golden)
    if not pairing.pairs:
        raise InputError(_nothing(device, golden), where=f"{request.device}, {request.golden}")
    readable = _Readable([pair for pair in pairing.pairs if not _damage(pair)])
    progress.stage("comparing tensors", len(readable))
    work = MeasureWork(request.wanted)
    measurements = iter(measure_all(readable, progress, request.workers, work, readable.sizes))
    pairs = [
        _damaged(pair, damage)
        if (damage := _damage(pair))
        else _judged(request, thresholds, pair, next(measurements))
        for pair in pairing.pairs
    ]
    for number, figures in detailed_metrics(_over(pairs), _CLOSER):
        measured = replace(pairs[number].found, figures=figures)
        pairs[number] = replace(pairs[number], found=measured)
    return DiffResult(
        tuple(pairs),
        tuple(tensor.name for tensor in pairing.device_only),
        tuple(tensor.name for tensor in pairing.golden_only),
        tuple(_notes(device, golden, pairing)),
        request.wanted,
    )


def _paired(request: DiffRequest, device: BareDump, golden: BareDump) -> NamePairing:
    sides: list[list[BareTensor]] = []
    for dump in (device, golden):
        tensors = dump.tensors
        if request.tensors is not None:
            pattern = request.tensors
            tensors = [tensor for tensor in tensors if _fits(tensor, pattern)]
            if not tensors:
                names = ", ".join(tensor.name for tensor in dump.tensors[:5])
                raise InputError(
                    f"no tensor here is called {pattern!r}", where=str(dump.path), hint=names
                )
        if not tensors:
            hint = unpack_hint(dump.path) or _seen(dump)
            raise InputError("no tensors here", where=str(dump.path), hint=hint)
        sides.append(tensors)
    return pair_by_name(*sides)


def _fits(tensor: BareTensor, pattern: str) -> bool:
    identity = tensor.identity
    names = (
        tensor.name,
        f"{identity.io}.{identity.port}",
        f"{identity.op}.{identity.io}.{identity.port}",
        identity.op,
    )
    return any(fnmatchcase(name, pattern) for name in names)


def _seen(dump: BareDump) -> str:
    if not dump.passed_over:
        return "docs/how-to/diff.md lists what is read"
    names = ", ".join(dump.examples)
    return f"{counted(dump.passed_over, 'file')} of no known kind: {names}"


def _nothing(device: BareDump, golden: BareDump) -> str:
    ours, theirs = device.tensors, golden.tensors
    if device.path.is_file() or golden.path.is_file():
        return (
            f"{counted(len(ours), 'tensor')} against {counted(len(theirs), 'tensor')}, and no "
            f"name is on both sides (choose one with --tensor: "
            f"{', '.join(tensor.name for tensor in max(ours, theirs, key=len)[:4])})"
        )
    return (
        f"no name is on both sides: {ours[0].name} … against {theirs[0].name} … "
        "(divergraph compare pairs by the graphs)"
    )


class _Readable(Sequence[AnyPair]):
    """The pairs to measure, each made by whoever measures it: of many thousands that is
    worth sharing."""

    def __init__(self, named: Sequence[NamedPair]) -> None:
        self._named = named
        self.sizes = [pair.device.nbytes + pair.golden.nbytes for pair in named]

    def __len__(self) -> int:
        return len(self._named)

    @overload
    def __getitem__(self, place: int) -> AnyPair: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[AnyPair]: ...
    def __getitem__(self, place: int | slice) -> AnyPair | Sequence[AnyPair]:
        if isinstance(place, slice):
            return _Readable(self._named[place])
        named = self._named[place]
        device, golden = named.device, named.golden
        if device.is_plain and golden.is_plain:
            return NpyFiles(device.place, golden.place, device.nbytes, golden.nbytes)
        pair = _tensor_pair(named)
        assert pair is not None
        return pair


def _tensor_pair(named: NamedPair) -> TensorPair | None:
    device, golden = named.device.ref, named.golden.ref
    return None if device is None or golden is None else TensorPair(device, golden)


def _over(pairs: Sequence[PairDiff]) -> Iterator[tuple[int, TensorPair, Measurement]]:
    for number, pair in enumerate(pairs):
        if pair.level is Level.FAIL and (measured := pair.pair) is not None:
            yield number, measured, pair.found


def _judged(
    request: DiffRequest, thresholds: Thresholds, named: NamedPair, measurement: Measurement
) -> PairDiff:
    if measurement.metrics is None:
        return PairDiff(named, measurement)
    if request.by_elements and measurement.figures is not None:
        wanted, bad = request.wanted, measurement.figures.bad
        if not bad:
            return PairDiff(named, measurement, Level.PASS)
        limit = f"{counted(bad, 'element')} beyond {wanted.atol:g} + {wanted.rtol:g} |golden|"
        return PairDiff(named, measurement, Level.FAIL, limit=limit)
    judgement = thresholds.judge(
        measurement.metrics,
        measurement.figures,
        device=measurement.device_dtype,
        golden=measurement.golden_dtype,
        op_type=named.device.op_type or named.golden.op_type,
        name=named.name,
    )
    return PairDiff(named, measurement, judgement.level, judgement.failed, judgement.limit)


def _damage(pair: NamedPair) -> BareTensor | None:
    """The side that cannot be read."""
    return next((side for side in (pair.device, pair.golden) if side.reason is not None), None)


def _damaged(pair: NamedPair, bad: BareTensor) -> PairDiff:
    return PairDiff(pair, Measurement(reason=bad.reason, detail=f"{bad.path}: {bad.damage}"))


def _notes(device: BareDump, golden: BareDump, pairing: NamePairing) -> Iterator[str]:
    for side, dump in (("device", device), ("golden", golden)):
        for note in dump.notes:
            yield f"{side}: {note}"
        if dump.passed_over:
            yield f"{side}: {_seen(dump)}"
    if pairing.superseded:
        yield f"{counted(pairing.superseded, 'earlier dump')} passed over, the last one counts"
    yield from fused_notes(pairing, (tensor.identity.op for tensor in golden.tensors))


def reasons(pairs: Sequence[PairDiff]) -> Counter[Reason]:
    """How many pairs could not be measured, by reason."""
    return Counter(pair.found.reason for pair in pairs if pair.found.reason is not None)
