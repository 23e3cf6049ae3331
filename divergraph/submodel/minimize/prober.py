"""Asks an oracle as rarely as possible: answers are kept, inferred, and repeated if they vary."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from divergraph.files.os_errors import os_errors_told
from divergraph.jobs.journal import journal_folder
from divergraph.jobs.waiting import wait_interruptible
from divergraph.submodel.minimize.space import Space, Units
from divergraph.submodel.minimize.verdicts import Probe, Variant
from divergraph.submodel.run_parts import RunParts
from graphstore.model import OracleAnswer, PartVerdict
from graphstore.schema.codec import decoded, encoded

Ask = Callable[[Units, Variant], OracleAnswer]
_MISSED = 0.01
"""The accepted probability of missing a failure because all tries happened to pass."""
_REPLAYS = 4
_EXPECTED = 0.6
"""The assumed failure rate of a flaky part before it was measured."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How much may be asked: ``calls`` of the oracle and ``seconds`` altogether; ``jobs`` at
    once. With ``flaky``, a failing part may pass now and then."""

    calls: int | None = None
    seconds: float | None = None
    jobs: int = 1
    flaky: bool = False


class StoppedError(Exception):
    """Raised to end the search; the message says why."""


class Memory:
    """Counts of answers by part and variant; forgets them at the end of the process."""

    def counts(self, part: Units, variant: Variant) -> tuple[list[OracleAnswer], int]:
        """The answers known so far, and how many of them are of an earlier session."""
        answers = self._known.get((part, variant), [])
        return answers, 0

    def keep(self, part: Units, variant: Variant, judgement: OracleAnswer) -> None:
        """Remember one more answer."""
        self._known.setdefault((part, variant), []).append(judgement)

    def __init__(self) -> None:
        self._known: dict[tuple[Units, Variant], list[OracleAnswer]] = {}


@dataclass
class Prober:
    """Asks *ask* about parts of *space* and remembers everything."""

    space: Space
    ask: Ask
    limits: SearchLimits = field(default_factory=SearchLimits)
    memory: Memory = field(default_factory=Memory)
    told: Callable[[Probe], None] | None = None
    cancel: Callable[[], None] | None = None
    """Ends what *ask* is busy with in other threads."""
    probes: list[Probe] = field(default_factory=list)
    calls: int = 0
    tries: int = 1
    rate: float | None = None
    """How often a failing part fails, as far as was seen."""
    _passed: dict[Variant, list[Units]] = field(default_factory=dict)
    _settled: dict[tuple[Units, Variant], Probe] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tries = _tries(_EXPECTED) if self.limits.flaky else 1

    def verdicts(
        self, parts: Sequence[Units], variant: Variant, parent: int | None, why: Sequence[str]
    ) -> list[Probe]:
        """What the oracle says of each part; those not known are asked at the same time.

        Raises:
            StoppedError: a limit is reached, or the user wants no more.
        """
        fresh = [p for p in dict.fromkeys(parts) if (p, variant) not in self._settled]
        with self._stoppable():
            answers = dict(zip(fresh, self._answered(fresh, variant), strict=True))
        probes = []
        for part, text in zip(parts, why, strict=True):
            if (part, variant) in self._settled:
                probes.append(self._settled[part, variant])
                continue
            judgement, calls, origin, seconds = answers[part]
            probe = Probe(
                len(self.probes), parent, text, part, self.space.size(part),
                variant, judgement, calls, origin, seconds,
            )  # fmt: skip
            self.probes.append(probe)
            self._settled[part, variant] = probe
            probes.append(probe)
            if judgement.verdict is PartVerdict.PASS and not origin.startswith("follows"):
                self._passed.setdefault(variant, []).append(part)
            if self.told is not None:
                self.told(probe)
        return probes

    def _answered(
        self, parts: Sequence[Units], variant: Variant
    ) -> list[tuple[OracleAnswer, int, str, float]]:
        if len(parts) == 1 or self.limits.jobs == 1:
            return [self._answer(part, variant) for part in parts]
        with ThreadPoolExecutor(self.limits.jobs) as pool:
            futures = [pool.submit(self._answer, part, variant) for part in parts]
            try:
                wait_interruptible(futures)
            except KeyboardInterrupt:
                for future in futures:
                    future.cancel()
                if self.cancel is not None:
                    self.cancel()
                raise
            return [future.result() for future in futures]

    def _answer(self, part: Units, variant: Variant) -> tuple[OracleAnswer, int, str, float]:
        started, calls = time.monotonic(), 0
        while True:
            answers, earlier = self.memory.counts(part, variant)
            decided = _decided(answers, self.tries)
            if decided is not None:
                whence = "" if calls else "asked before"
                whence = "an earlier session" if not calls and earlier else whence
                return decided, calls, whence, time.monotonic() - started
            if not calls and self._implied(part, variant):
                passes = OracleAnswer(PartVerdict.PASS, "a larger part that holds it passes")
                return passes, 0, "follows from a larger part", 0.0
            self._count()
            calls += 1
            judgement = self.ask(part, variant)
            self.memory.keep(part, variant, judgement)
            if judgement.verdict is PartVerdict.FAIL and self.limits.flaky and self.rate is None:
                calls += self._measure_rate(part, variant)

    def _measure_rate(self, part: Units, variant: Variant) -> int:
        """How often a part fails that failed once; more tries are made if it is seldom."""
        with self._lock:
            if self.rate is not None:
                return 0
            self.rate = _EXPECTED
        fails = 0
        for _ in range(_REPLAYS):
            self._count()
            again = self.ask(part, variant)
            self.memory.keep(part, variant, again)
            fails += again.verdict is PartVerdict.FAIL
        self.rate = (fails + 1) / (_REPLAYS + 2)
        self.tries = max(2, _tries(self.rate))
        self._passed.clear()  # they may have passed too few times
        self._settled.clear()
        return _REPLAYS

    def _implied(self, part: Units, variant: Variant) -> bool:
        return any(part <= passed for passed in self._passed.get(variant, ()))

    def _count(self) -> None:
        limits = self.limits
        with self._lock:
            if limits.calls is not None and self.calls >= limits.calls:
                raise StoppedError(f"the budget of {limits.calls} calls of the oracle is used up")
            if limits.seconds is not None and time.monotonic() - self._started > limits.seconds:
                raise StoppedError(f"the time of {limits.seconds:g} s is over")
            self.calls += 1

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt as stopped:
            raise StoppedError("stopped by the user") from stopped


def _decided(answers: Sequence[OracleAnswer], tries: int) -> OracleAnswer | None:
    """The verdict from the answers so far: one failure is enough, a pass takes *tries*."""
    failed = next((answer for answer in answers if answer.verdict is PartVerdict.FAIL), None)
    if failed is not None:
        passed = sum(answer.verdict is PartVerdict.PASS for answer in answers)
        if passed:
            count_text = f"failed {len(answers) - passed} of {len(answers)} times"
            return replace(
                failed, detail=f"{failed.detail}; {count_text}" if failed.detail else count_text
            )
        return failed
    unknown = next((answer for answer in answers if answer.verdict is PartVerdict.UNKNOWN), None)
    if unknown is not None:
        return unknown
    return answers[-1] if len(answers) >= tries else None


def _tries(rate: float) -> int:
    if rate >= 1.0:
        return 1
    return max(1, math.ceil(math.log(_MISSED) / math.log(1.0 - rate)))


class KeptAnswers(Memory):
    """Answers about parts of one run by one oracle, written one by one as they come.

    An answer belongs to the part's ops (their boundary follows from them), the variant, both
    graphs, the dumps as they were compared, and the oracle. UNKNOWN answers are not reused in a
    later session, as their reason may be gone.
    """

    def __init__(
        self,
        path: Path,
        space: Space,
        stored: Mapping[str, Sequence[OracleAnswer]],
        *,
        fresh: bool = False,
    ) -> None:
        """*stored* are the answers the run keeps, as :meth:`told` gave them."""
        super().__init__()
        self._path = path
        self._space = space
        self._lock = Lock()
        self._keys: dict[tuple[Units, Variant], str] = {}
        self._answers: dict[str, list[OracleAnswer]] = {}
        self._earlier: dict[str, int] = {}
        if fresh:
            path.unlink(missing_ok=True)
        else:
            self._read(stored)

    def counts(self, part: Units, variant: Variant) -> tuple[list[OracleAnswer], int]:
        """The answers known so far, and how many of them are of an earlier session."""
        key = self._key(part, variant)
        with self._lock:
            return list(self._answers.get(key, ())), self._earlier.get(key, 0)

    def keep(self, part: Units, variant: Variant, judgement: OracleAnswer) -> None:
        """Remember one more answer, on disk before this returns."""
        key = self._key(part, variant)
        line = json.dumps([key, encoded(judgement)])
        with self._lock:
            self._answers.setdefault(key, []).append(judgement)
            hint = "set DIVERGRAPH_CACHE to a folder you may write"
            with os_errors_told("answers cannot be kept", self._path, hint):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")

    def _key(self, part: Units, variant: Variant) -> str:
        digest = self._keys.get((part, variant))
        if digest is None:
            text = "\0".join((variant.value, *self._space.ops(part)))
            digest = _digest(text)
            self._keys[part, variant] = digest
        return digest

    def told(self) -> dict[str, tuple[OracleAnswer, ...]]:
        """All answers, as a run keeps them."""
        with self._lock:
            return {
                key: tuple(
                    [answer for answer in answers if answer.verdict is not PartVerdict.UNKNOWN]
                )
                for key, answers in self._answers.items()
            }

    def _read(self, stored: Mapping[str, Sequence[OracleAnswer]]) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []  # nothing was kept here yet
        for line in lines:
            with suppress(ValueError, TypeError, AttributeError):  # a line cut by a kill
                key, answer = json.loads(line)
                self._take(str(key), decoded(OracleAnswer, answer))
        here = set(self._answers)
        for key, answers in stored.items():
            for answer in answers if key not in here else ():
                self._take(key, answer)
        self._earlier = {key: len(answers) for key, answers in self._answers.items()}

    def _take(self, key: str, answer: OracleAnswer) -> None:
        if answer.verdict is not PartVerdict.UNKNOWN:
            self._answers.setdefault(key, []).append(answer)


def answers_path(parts: RunParts, identity: str) -> Path:
    """Where the answers of an oracle on this run are kept."""
    run = parts.data.run
    analysis = run.analysis  # it may be made again, and answers depend on it
    judged_by = repr((analysis.arithmetic, analysis.suspect, analysis.guilty))
    made_of = parts.made_of or chr(0).join((run.created, repr(sorted(run.inputs.items()))))
    identities = (parts.golden.id, parts.device.id, made_of, judged_by)
    return (
        journal_folder().parent
        / "minimize"
        / f"{_digest(chr(0).join((*identities, identity)))}.jsonl"
    )


def _digest(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()
