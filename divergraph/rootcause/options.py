"""The options of the root-cause analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from divergraph.execute.contract import DEFAULT_MEMORY
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import OperandFormat
from divergraph.rootcause.devices.precision import Precision
from graphstore.errors import InputError
from graphstore.model import Guilt


class MethodChoice(StrEnum):
    """How origins are to be found."""

    AUTO = "auto"
    """By root-cause analysis where the golden model can be run here, else by thresholds."""
    ROOT_CAUSE = "root-cause"
    THRESHOLDS = "thresholds"


@dataclass(frozen=True, slots=True)
class RootCauseOptions:
    """Limits of suspicion (introduced error over noise floor), and how the analysis works.

    ``precision`` None: it is found from the device's dumps, and the precision of matrix operands
    from the errors of matrix ops unless ``operands`` is given. ``memory`` is in bytes.
    """

    suspect: float = field(default_factory=lambda: calibration.SUSPECT)
    guilty: float = field(default_factory=lambda: calibration.GUILTY)
    precision: Precision | None = None
    memory: int = DEFAULT_MEMORY
    operands: OperandFormat | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.suspect <= self.guilty:
            raise InputError(
                f"limits of suspicion: suspect {self.suspect:g}, guilty {self.guilty:g}",
                hint="both above 0, and --guilty not below --suspect",
            )

    def guilt(self, suspicion: float) -> Guilt:
        """The guilt of a suspicion: a value at a limit is not over it."""
        if suspicion > self.guilty:
            return Guilt.GUILTY
        return Guilt.SUSPECT if suspicion > self.suspect else Guilt.NONE


DEFAULT_OPTIONS = RootCauseOptions()
