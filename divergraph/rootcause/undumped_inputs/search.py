"""What a device was fed where its dump does not hold it: found, unknown, or no matter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TypeAlias

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.causes.contract import CauseStage, cause_rules
from divergraph.rootcause.devices.mixed_precision import Arithmetics
from divergraph.rootcause.devices.quantised_ops import QuantisedOps
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.input_relations.known import relation
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.undumped_inputs.dependence import clears_input, is_elementwise
from divergraph.rootcause.undumped_inputs.guessed import Tried, likely_guesses
from divergraph.rootcause.undumped_inputs.readers import Reader, readers_of
from divergraph.rootcause.undumped_inputs.solved import Exists, solved
from graphstore.model import UNCLASSIFIED, ErrorSplit, Finding, Guilt, TensorRef

Judge: TypeAlias = Callable[[Mapping[str, Array], Sequence[Group]], Mapping[TensorRef, ErrorSplit]]
"""Judges groups with inputs of the model fed as given by name."""

_MOST_JUDGED = 12
_MOST_GAIN = 8.0
_AS_NOISE = 1.5
"""How many times the noise a right guess leaves at most of what quantisers put out."""
_OTHER_DATA = "replaced by other data"


class Culprit(Enum):
    """Who made what the readers of an input put out."""

    INPUT = "input"
    OPS = "ops"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class FedOtherwise:
    """An input that golden was fed otherwise, or may have been: its ``name``, the outputs computed
    from it, and who is to ``blame``. ``values`` are those the device was fed, None if not known,
    ``words`` their relation to golden's."""

    name: str
    outputs: tuple[TensorRef, ...]
    blame: Culprit
    words: str = ""
    values: Array | None = None


def fed_otherwise(
    run: PreparedRun,
    groups: Sequence[Group],
    splits: Mapping[TensorRef, ErrorSplit],
    findings: Collection[Finding],
    judge: Judge,
    arithmetics: Arithmetics,
    quantised: QuantisedOps,
) -> Iterator[FedOtherwise]:
    """The inputs of the model that the device did not dump and that a guilty op reads.

    An input is to blame if it follows from golden's by a relation that explains all that read it,
    or if only another input explains them although few could; the ops are if no input does, if
    parts of their outputs clear it, or if a fault of few parameters predicts what they put out.
    """
    for name, readers in readers_of(run, groups, splits, arithmetics, quantised).items():
        if readers:
            yield _Search(name, readers, findings, judge).found()


@dataclass(frozen=True)
class _Search:
    name: str
    readers: Sequence[Reader]
    findings: Collection[Finding]
    judge: Judge

    def found(self) -> FedOtherwise:
        guess = next(self._explaining(), None)
        if guess is not None:
            exact = not self._are_in_steps() or all(r.gives(guess.values) for r in self.readers)
            # A judge of quantised ops would see each tie that a number fitted nearly has otherwise.
            values = guess.values if exact else None
            return self._as(self._blame_beside(guess, exact=exact), guess.words, values)
        # Rows that are all in a table were looked up, whatever simple fault would move them, too.
        if self.readers[0].golden.dtype.kind not in "iu" and self._is_fault():
            return self._as(Culprit.OPS if self._outweighs_inputs() else Culprit.EITHER)
        return self._by_solving()

    def _explaining(self) -> Iterator[Tried]:
        """The guesses that explain what all readers put out."""
        guesses = likely_guesses(self.readers)
        if self._are_in_steps():
            # An input that leaves about as much as golden's explains nothing.
            golden = max(reader.suspicion(reader.reference) for reader in self.readers)
            most = min(_AS_NOISE, golden / _AS_NOISE)
            return (guess for guess in guesses if guess.suspicion <= most)
        judged = islice(guesses, _MOST_JUDGED)
        return (guess for guess in judged if self._are_healthy(guess.values))

    def _are_in_steps(self) -> bool:
        return all(each.steps is not None for each in self.readers)

    def _blame_beside(self, guess: Tried, *, exact: bool) -> Culprit:
        """Who is to blame where *guess* explains the readers; where it is not *exact*, off by steps
        of quantisers, a fault may explain them as well."""
        of_op = self._may_be_of_op(guess) or (not exact and self._is_fault())
        return Culprit.EITHER if of_op else Culprit.INPUT

    def _is_fault(self) -> bool:
        """Whether a fault of the ops explains them as no input does."""
        if is_elementwise(self.readers):  # any output is that of some input
            return False
        return self._is_predicted() or clears_input(self.readers)

    def _outweighs_inputs(self) -> bool:
        """Whether a fault of the ops explains them better than any input does. What ranges of
        quantisers cut off looks like other gains and offsets of channels, and some slices are right
        by chance: that is no proof against an input that gives every output."""
        if not self._are_in_steps():
            return True
        solutions = (solved(each) for each in self.readers if each.is_wrong)
        return any(s.exists is not Exists.YES or s.suspicion > _AS_NOISE for s in solutions)

    def _may_be_of_op(self, guess: Tried) -> bool:
        """Whether the op that reads the input may be what *guess* says of the input: a factor of
        one that adds nothing of its own (but no op is off by the 255 of an image), other numbers in
        their places of one that computes each by itself."""
        if not guess.is_arranged and is_elementwise(self.readers):
            return True
        factor = float(np.abs(guess.values).max(initial=0.0))
        factor /= float(np.abs(self.readers[0].golden).max(initial=0.0)) or 1.0
        if not guess.is_gain or len(self.readers) > 1 or not self._adds_nothing():
            return False
        return factor == 0.0 or 1 / _MOST_GAIN < factor < _MOST_GAIN

    def _adds_nothing(self) -> bool:
        (made,) = self.readers[0].outputs([np.zeros_like(self.readers[0].golden)])
        return made is not None and not made.any()

    def _by_solving(self) -> FedOtherwise:
        solutions = [solved(reader) for reader in self.readers if reader.is_wrong]
        if any(each.exists is Exists.NO for each in solutions):
            return self._as(Culprit.OPS)
        golden = self.readers[0].golden
        known = next((each.values for each in solutions if each.values is not None), None)
        if known is not None and self._are_healthy(known):
            noise = max(each.noise for each in self.readers)
            words = relation(golden, known, noise) or _OTHER_DATA
            return self._as(Culprit.INPUT, words, known.astype(golden.dtype))
        if known is not None and golden.dtype.kind in "iu":
            return self._as(Culprit.OPS)  # the nearest rows of a table leave a part that is wrong
        if all(each.exists is Exists.YES for each in solutions):
            return self._as(Culprit.INPUT, _OTHER_DATA)
        return self._as(Culprit.OPS if self._is_fault() else Culprit.EITHER)

    def _as(self, blame: Culprit, words: str = "", values: Array | None = None) -> FedOtherwise:
        outputs = tuple(each.output for each in self.readers if each.is_wrong)
        return FedOtherwise(self.name, outputs, blame, words, values)

    def _are_healthy(self, values: Array) -> bool:
        """Whether all readers are healthy on *values*."""
        given = values.astype(self.readers[0].golden.dtype)
        splits = self.judge({self.name: given}, [each.group for each in self.readers])
        return all(each.guilt is Guilt.NONE and not each.failure for each in splits.values())

    def _is_predicted(self) -> bool:
        """Whether a fault of few parameters predicts what each wrong reader put out."""
        wrong = {(each.output.op, each.output.port) for each in self.readers if each.is_wrong}
        exact = {(each.op, each.port) for each in self.findings if each.label in _predicting()}
        return wrong <= exact


def _predicting() -> frozenset[str]:
    """The labels of causes that predict the device's values by few parameters."""
    rules = (rule for rule in cause_rules() if rule.stage <= CauseStage.LINE)
    return frozenset(label for rule in rules for label in rule.labels) - {UNCLASSIFIED}
