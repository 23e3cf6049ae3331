"""What may be limited, the built-in limits, the rules of a file and how they combine."""

from divergraph.metrics.limits.quantities import QUANTITIES, Quantity
from divergraph.metrics.limits.rules import Limit, LimitRule, LimitScope

__all__ = ["QUANTITIES", "Limit", "LimitRule", "LimitScope", "Quantity"]
