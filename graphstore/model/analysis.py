"""The results of analyses that concern a run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from graphstore.model.root_cause import Reckoning

SUSPECT, GUILTY = 6.0, 10.0
"""The default limits: above these suspicions an op is suspect, or guilty."""


_FOR_FLOAT32 = frozenset({"hf32", "tf32", "bf16", "fp16"})
"""Operands that stand for float32: on a device of 16 bits they are those of a few ops."""


@dataclass(frozen=True, slots=True)
class DeviceArithmetic:
    """What the device computes in, as the root-cause analysis found it or was told.

    ``precision`` is the word of ``--precision`` (``fp16``), "" where no analysis was made;
    ``quantised`` says that integers of 8 bits are among its tensors, too. ``operands`` gives the
    operand format of families of matrix ops (``hf32``, ``e4m3 by row``), ``functions`` by op type
    the relative error of approximated functions; both list only what is not exact. ``fp32_ops`` are
    device ops that stay in float32 on a device of 16 bits.
    """

    precision: str = ""
    quantised: bool = False
    operands: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, float] = field(default_factory=dict)
    fp32_ops: tuple[str, ...] = ()

    def __str__(self) -> str:
        """``fp32/hf32, int8``, ``bf16/e4m3 by row``: operands and 8 bits beside the precision."""
        kinds = {kind.removesuffix(", cut") for kind in self.operands.values()}
        if self.precision != "fp32":
            kinds -= _FOR_FLOAT32
        quantised = ", int8" if self.quantised and self.precision != "int8" else ""
        return "/".join([self.precision, *sorted(kinds)]) + quantised


@dataclass(frozen=True, slots=True)
class InputMismatch:
    """An input on which the sides differ already, ``error`` (relative) over ``floor``.

    No op is to blame for it. ``op`` is the device op that brings it in, "" for an input
    of the model. ``relation`` says how the device's values follow from golden's, in words that
    continue "the device was fed golden's x": ``flipped along axis 3``; "" if that is not known.
    ``seen_at``: the device ops whose outputs show it, where the device did not dump the input;
    ``error`` is then that of the values they were fed by the relation, None if there is none.
    """

    op: str
    tensor: str
    error: float | None
    floor: float | None
    relation: str = ""
    seen_at: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputShares:
    """By device op its signed share of the error at the outputs, and the share no op explains."""

    shares: Mapping[str, float] = field(default_factory=dict)
    unexplained: float | None = None


class PartVerdict(StrEnum):
    """Whether a part of a model shows the failure."""

    FAIL = "fail"
    PASS = "pass"
    UNKNOWN = "unknown"
    """Undecided: it does not compile, does not end, or was not dumped."""


@dataclass(frozen=True, slots=True)
class OracleAnswer:
    """The answer of one call of an oracle. ``detail`` is a sentence, ``error`` the relative error
    of the worst output and ``limit`` what is allowed, where they were measured."""

    verdict: PartVerdict
    detail: str = ""
    error: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedOutput:
    """An output of the device's run without dumping beside that of the dumped run.

    ``tensor`` is golden's name of it, ``op`` and ``port`` the device's output. Relative errors:
    ``moved`` of the dumped run against the other, ``error_dumped`` and ``error`` of both against
    golden. ``fails_dumped`` and ``fails`` say which is over a limit. What could not be compared is
    None, and ``detail`` says why.
    """

    tensor: str
    op: str
    port: int
    moved: float | None
    error_dumped: float | None
    error: float | None
    fails_dumped: bool
    fails: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RegroupedOp:
    """A fused ``op`` of the graph that runs without dumping, made of ``originals``, which are in
    the ops ``dumped_in`` of the dumped graph."""

    op: str
    originals: tuple[str, ...]
    dumped_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What dumping changed in the device's run. ``same``: nothing, beyond a few units in the last
    place. ``kept`` fused ops are in both graphs, ``regrouped`` are in the undumped one only."""

    same: bool
    outputs: tuple[ObservedOutput, ...] = ()
    kept: int = 0
    regrouped: tuple[RegroupedOp, ...] = ()


@dataclass(frozen=True, slots=True)
class RunAnalysis:
    """The analyses of a run: root cause, blame and the search for failing parts.

    ``executor`` ran the reference; ``note`` says why there is none. ``minimized`` is the
    result of the last search, as ``minimize --json`` prints it, ``blamed`` that of the last blame.
    ``answers`` has by oracle, then by part, what oracles said of parts. ``reckonings`` are those
    of the outputs over half the limit of suspects, the most suspicious first. ``doubt`` is what has
    to be said before the verdict, "" if nothing has; where no answer can be right for it, the
    verdict is undecided.
    ``observed`` says what dumping changed, None if nothing is known. ``inside`` counts the tensors
    that were not compared but judged all the same, as parts of an op made of several; ``beside``
    those there is nothing to compare with: constants that judged ops read, and what a compiler put
    in to have values in another layout or type.
    """

    suspect: float = SUSPECT
    guilty: float = GUILTY
    executor: str = ""
    note: str = ""
    arithmetic: DeviceArithmetic = field(default_factory=DeviceArithmetic)
    mismatches: tuple[InputMismatch, ...] = ()
    blame: OutputShares = field(default_factory=OutputShares)
    minimized: str = ""
    blamed: str = ""
    answers: Mapping[str, Mapping[str, tuple[OracleAnswer, ...]]] = field(default_factory=dict)
    reckonings: tuple[Reckoning, ...] = ()
    doubt: str = ""
    observed: ObservedRun | None = None
    inside: int = 0
    beside: int = 0
