"""Whether the packages that come with ``divergraph`` are ours: their names are common ones."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

OWN_PACKAGES = ("graphstore", "importers", "tui")
_OURS = "divergraph"
_CURE = (
    "install divergraph into an environment of its own (python -m venv, pipx or uv tool), "
    "without PYTHONPATH"
)


def strange_packages() -> str:
    """What is said of those of our packages that are not ours; empty if all are."""
    return "; ".join(filter(None, map(strangeness, OWN_PACKAGES)))


def strangeness(name: str) -> str:
    """Who hides or overwrote our package *name*, and the cure; empty if nobody did."""
    fault = _hidden(name) or _shared(name)
    return f"{fault}: {_CURE}" if fault else ""


def _hidden(name: str) -> str:
    """What is found under *name* beside other files than ours."""
    spec = importlib.util.find_spec(name)
    parent = Path(spec.origin).parent if spec is not None and spec.origin else None
    ours = Path(__file__).resolve().parents[2] / name
    if parent is None:
        return f"our package {name} is missing"
    return "" if parent.resolve() == ours else f"{parent} is not our package {name}, and hides it"


def _shared(name: str) -> str:
    """Which other distributions have files in the folder *name*, too."""
    owners = importlib.metadata.packages_distributions().get(name, ())
    others = sorted({owner for owner in owners if owner.lower() != _OURS})
    return f"{' and '.join(others)} overwrote our package {name}" if others else ""
