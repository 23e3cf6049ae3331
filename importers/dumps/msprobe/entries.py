"""The order of what an entry of a ``dump.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PARAMETERS_GRAD = "parameters_grad"
"""What names the entry of the gradients of a module's parameters."""


def gradients_in_order(call: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The *entry* of *call*; gradients of parameters by name, weights first: in a dump they are in
    the order in which they came, which is another one under autocast."""
    is_of_parameters = PARAMETERS_GRAD in call
    return dict(sorted(entry.items(), reverse=True)) if is_of_parameters else entry
