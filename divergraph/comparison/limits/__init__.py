"""What may be limited, the built-in limits, the rules of a file and how they combine."""

from divergraph.comparison.limits.quantities import QUANTITIES, Quantity
from divergraph.comparison.limits.rules import Limit, Rule, Scope

__all__ = ["QUANTITIES", "Limit", "Quantity", "Rule", "Scope"]
