"""Checks of the device's dump by itself."""

from __future__ import annotations

from dataclasses import dataclass

from divergraph.ask.question import Question, RunName
from divergraph.consistency.checks import ConsistencyReport, check_consistency
from divergraph.inputs.kept_paths import kept_path
from divergraph.inputs.sources import load_dumps
from graphstore.cancellation import Cancellation
from graphstore.contract import GraphStore


@dataclass(frozen=True, slots=True)
class ConsistencyQuestion(Question[ConsistencyReport]):
    """Is the device's dump of a run sound by itself? Looks for NaN, overflows and inputs that are
    not what their producers put out. Reads the dump."""

    name = "consistency"
    command = "consistency"
    reads_files = True

    run: RunName

    def ask(self, store: GraphStore, cancellation: Cancellation | None = None) -> ConsistencyReport:
        """What it shows.

        Raises:
            InputError: the dump is gone.
        """
        device = store.graph(self.run)
        place = kept_path(store.run(self.run), "device_dump")
        return check_consistency(device, load_dumps(place, device, "device").index)


QUESTION = ConsistencyQuestion
