"""Answers of oracles in a file: a search goes on where it was stopped or killed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from divergraph.jobs.journal import journal_folder
from divergraph.submodel.minimize.prober import Memory
from divergraph.submodel.minimize.space import Space, Units
from divergraph.submodel.minimize.verdicts import OracleAnswer, PartVerdict, Variant
from divergraph.submodel.run_parts import RunParts
from graphstore.errors import InputError

Answer: TypeAlias = "list[str | float | None]"
"""Verdict, detail, error and limit of a judgement."""
_JUDGED_BY = ("precision", "operands", "functions", "fp32_ops", "limits")
"""What of the analysis of a run answers depend on; it may be made again."""


class KeptAnswers(Memory):
    """Answers about parts of one run by one oracle, written one by one as they come.

    An answer belongs to the part's ops (their boundary follows from them), the variant, both
    graphs, the dumps as they were compared, and the oracle. Answers that were no answer
    (UNKNOWN) are not used again by a later session: what stood in the way may be mended.
    """

    def __init__(
        self, path: Path, space: Space, stored: object = None, *, fresh: bool = False
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
        line = json.dumps(
            [key, judgement.verdict.value, judgement.detail, judgement.error, judgement.limit]
        )
        with self._lock:
            self._answers.setdefault(key, []).append(judgement)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
            except OSError as error:
                raise InputError(
                    f"answers cannot be kept: {error.strerror}",
                    where=str(self._path),
                    hint="set DIVERGRAPH_CACHE to a folder you may write",
                ) from error

    def _key(self, part: Units, variant: Variant) -> str:
        known = self._keys.get((part, variant))
        if known is None:
            text = "\0".join((variant.value, *self._space.ops(part)))
            known = _digest(text)
            self._keys[part, variant] = known
        return known

    def told(self) -> dict[str, list[Answer]]:
        """All answers, as a run keeps them."""
        with self._lock:
            return {
                key: [_plain(each) for each in answers if each.verdict is not PartVerdict.UNKNOWN]
                for key, answers in self._answers.items()
            }

    def _read(self, stored: object) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []  # nothing was kept here yet
        for line in lines:
            with suppress(ValueError, TypeError):  # a line cut by a kill
                key, *answer = json.loads(line)
                self._take(str(key), answer)
        here = set(self._answers)
        for key, answers in dict(stored).items() if isinstance(stored, Mapping) else ():
            for answer in answers if key not in here else ():
                self._take(str(key), answer)
        self._earlier = {key: len(answers) for key, answers in self._answers.items()}

    def _take(self, key: str, answer: Sequence[Any]) -> None:
        verdict, detail, error, limit = answer
        found = OracleAnswer(PartVerdict(verdict), str(detail), error, limit)
        if found.verdict is not PartVerdict.UNKNOWN:
            self._answers.setdefault(key, []).append(found)


def _plain(answer: OracleAnswer) -> Answer:
    """An answer as JSON; sizes that are no numbers are left out."""
    sizes = (answer.error, answer.limit)
    error, limit = (size if size is not None and isfinite(size) else None for size in sizes)
    return [answer.verdict.value, answer.detail, error, limit]


def answers_path(parts: RunParts, identity: str) -> Path:
    """Where the answers of an oracle on this run are kept."""
    run = parts.data.run
    judged_by = (repr(run.analysis.get(key)) for key in _JUDGED_BY)
    inputs = repr(sorted(run.inputs.items()))
    told = (parts.golden.id, parts.device.id, run.created, inputs, *judged_by)
    return journal_folder().parent / "minimize" / f"{_digest(chr(0).join((*told, identity)))}.jsonl"


def _digest(text: str) -> str:
    whole = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=16).hexdigest()
