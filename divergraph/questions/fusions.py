"""Fusion passes: which made ops, and whether one made an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from divergraph.ask.fusion.fused_ops import FusionAnswer, fusion
from divergraph.ask.fusion.trial import FusionTrial, fusion_trial
from divergraph.present.json.fusion import fusion_json, trial_json
from divergraph.present.json.shapes import Json
from divergraph.questions.question import Question
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class FusionQuestion(Question[FusionAnswer]):
    """Which passes made these ops, or without names those at which the error of a run starts?"""

    run: str
    ops: tuple[str, ...] = ()

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionAnswer:
        """The ops with their passes, and what switches these off."""
        return fusion(store, self.run, self.ops)

    def json(self, answer: FusionAnswer) -> Mapping[str, Json]:
        """What ``fusion`` prints."""
        return fusion_json(self.run, answer)


@dataclass(frozen=True, slots=True)
class FusionTrialQuestion(Question[FusionTrial]):
    """Is the error of a run gone in ``against``, a run made with fusion passes off?"""

    run: str
    against: str

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionTrial:
        """What became of each guilty op.

        Raises:
            InputError: the runs have no original in common.
        """
        return fusion_trial(store, self.run, self.against)

    def json(self, answer: FusionTrial) -> Mapping[str, Json]:
        """What ``fusion --against`` prints."""
        return trial_json(answer)
