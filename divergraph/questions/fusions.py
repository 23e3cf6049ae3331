"""Fusion passes: which made ops, and whether one made an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from divergraph.ask.fusion.fused_ops import FusionAnswer, fusion
from divergraph.ask.fusion.trial import FusionTrial, fusion_trial
from divergraph.ask.question import Parameter, RunName, TargetName
from divergraph.present.declared_answer import WrittenQuestion
from divergraph.present.json.fusion import fusion_json, trial_json
from divergraph.present.json.shapes import Json
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class FusionQuestion(WrittenQuestion[FusionAnswer]):
    """Which passes made these ops, or without names those at which the error of a run starts?"""

    name = "fusion"
    shapes = ("FusionAnswer",)

    run: TargetName
    ops: Annotated[
        tuple[str, ...],
        Parameter("Default: those at which the error starts.", is_argument=True, metavar="[OP]..."),
    ] = ()

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionAnswer:
        """The ops with their passes, and what switches these off."""
        return fusion(store, self.run, self.ops)

    def json(self, answer: FusionAnswer) -> Mapping[str, Json]:
        """What ``fusion`` prints."""
        return fusion_json(self.run, answer)


@dataclass(frozen=True, slots=True)
class FusionTrialQuestion(WrittenQuestion[FusionTrial]):
    """Is the error of a run gone in ``against``, a run made with fusion passes off?"""

    name = "fusion-trial"
    command = "fusion --against"
    path = "/runs/{run}/fusion/trial"
    shapes = ("FusionTrialAnswer",)

    run: RunName
    against: Annotated[str, Parameter("The run made with passes off.", is_run=True)]

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> FusionTrial:
        """What became of each guilty op.

        Raises:
            InputError: the runs have no original in common.
        """
        return fusion_trial(store, self.run, self.against)

    def json(self, answer: FusionTrial) -> Mapping[str, Json]:
        """What ``fusion --against`` prints."""
        return trial_json(answer)
