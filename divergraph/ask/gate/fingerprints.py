"""What names a fault over runs, recompiles and versions of the device's graph."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from divergraph.ask.origin_answers import OriginAnswer
from graphstore.model import FindingKind

UNEXPLAINED = "unexplained"


def fingerprint(answer: OriginAnswer) -> str:
    """32 hex digits of the originals an error starts in and of its cause.

    Compilers name and fuse ops anew; the golden model's ops and what is wrong with them stay.
    """
    origin = answer.origin
    originals = {*answer.group, *(tensor.op for tensor in origin.golden)}
    return _digest((cause_of(answer), *sorted(originals or {origin.op})))


def cause_of(answer: OriginAnswer) -> str:
    """The machine's word for the cause that was found; ``unexplained`` if none was."""
    causes = (finding.label for finding in answer.findings if finding.kind is FindingKind.CAUSE)
    return next(causes, UNEXPLAINED)


def _digest(words: Iterable[str]) -> str:
    return sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:32]
