"""Answers of oracles in a file: a search goes on where it was stopped or killed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from divergraph.jobs.journal import journal_folder
from divergraph.submodel.minimize.prober import Memory
from divergraph.submodel.minimize.space import Space, Units
from divergraph.submodel.minimize.verdicts import Variant
from divergraph.submodel.run_parts import RunParts
from graphstore.errors import InputError
from graphstore.model import OracleAnswer, PartVerdict
from graphstore.schema.codec import decoded, encoded


class KeptAnswers(Memory):
    """Answers about parts of one run by one oracle, written one by one as they come.

    An answer belongs to the part's ops (their boundary follows from them), the variant, both
    graphs, the dumps as they were compared, and the oracle. Answers that were no answer
    (UNKNOWN) are not used again by a later session: what stood in the way may be mended.
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

    def told(self) -> dict[str, tuple[OracleAnswer, ...]]:
        """All answers, as a run keeps them."""
        with self._lock:
            return {
                key: tuple([each for each in answers if each.verdict is not PartVerdict.UNKNOWN])
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
    found = run.analysis  # it may be made again, and answers depend on it
    judged_by = repr((found.arithmetic, found.suspect, found.guilty))
    inputs = repr(sorted(run.inputs.items()))
    told = (parts.golden.id, parts.device.id, run.created, inputs, judged_by)
    return journal_folder().parent / "minimize" / f"{_digest(chr(0).join((*told, identity)))}.jsonl"


def _digest(text: str) -> str:
    whole = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=16).hexdigest()
