"""Which candidate is the counterpart, and with what confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from divergraph.values.closeness import FAR
from graphstore.model import Reorder, TensorRef

SURE_ENOUGH = 0.8
"""From this confidence on tensors are compared."""

_STEPS = ((0.0, 0.99), (1e-5, 0.98), (2e-2, 0.95), (0.1, 0.9), (0.3, 0.8))
"""Relative distance up to here, confidence: the size of float32, float16 and int8 noise."""
_CLEAR = 3.0
"""The next candidate must be farther away by this factor for full confidence."""
_KIN_DECIDES = 0.9
_NOTHING_DECIDES = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A golden tensor and how far its values are from the device tensor's.

    Candidates of one *family* have the same values under several names (an Identity, a Cast): any
    of them is right. *kin* is set if it comes from an op of the device op's type.
    """

    golden: TensorRef
    apart: float
    reorder: Reorder | None = None
    family: int = 0
    kin: bool = False


@dataclass(frozen=True, slots=True)
class CounterpartChoice:
    """The best candidate and the confidence in it."""

    best: Candidate
    confidence: float


def judge(candidates: Sequence[Candidate]) -> CounterpartChoice | None:
    """The nearest candidate; None if none is near.

    Candidates with other values that are about as near lower the confidence, less so if the op's
    type decides.
    """
    closest = [candidate for candidate in candidates if candidate.apart < FAR]
    if not closest:
        return None
    closest.sort(key=lambda candidate: (candidate.apart, not candidate.kin))
    best = closest[0]
    contenders = [candidate for candidate in closest if candidate.apart <= best.apart * _CLEAR]
    doubt = 1.0
    if len({candidate.family for candidate in contenders}) > 1:
        kin = [candidate for candidate in contenders if candidate.kin]
        if len({candidate.family for candidate in kin}) == 1:
            best, doubt = kin[0], _KIN_DECIDES
        else:
            doubt = _NOTHING_DECIDES
    confidence = next((sure for limit, sure in _STEPS if best.apart <= limit), 0.0)
    return CounterpartChoice(best, confidence * doubt) if confidence else None
