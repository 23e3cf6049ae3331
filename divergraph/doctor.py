"""Is the installation whole, are the four packages ours, can the store be used?"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from divergraph.wording import counted
from graphstore.errors import DivergraphError

_OURS = ("divergraph", "graphstore", "importers", "tui")
_EXTRAS = {
    "tensorflow": ("tensorflow", "running TensorFlow graphs"),
    "distributed": ("cluster", "comparing on many machines"),
    "jgo": ("neo4j-server", "a Neo4j server started for you"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at; ``optional`` ones may be missing."""

    name: str
    fine: bool
    detail: str
    optional: bool = False


def checks(store_url: str) -> list[Check]:
    """Everything worth knowing before asking for help, the store last."""
    return [*_python(), *_packages(), *_libraries(), *_extras(), _store(store_url)]


def _python() -> Iterator[Check]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("python", sys.version_info >= (3, 11), f"{found} at {sys.executable}")


def _packages() -> Iterator[Check]:
    """Other distributions use the same package names: say which file stands in the way."""
    home = Path(__file__).resolve().parent.parent
    for name in _OURS:
        spec = util.find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        place = Path(places[0]).resolve() if places else None
        fine = place == home / name
        detail = str(place) if place is not None else "not found"
        yield Check(name, fine, detail if fine else f"{detail} is not ours; use an own environment")


def _libraries() -> Iterator[Check]:
    # By name only: whether the versions fit, the installer has judged.
    named = [re.match(r"[\w.-]+", text) for text in requires("divergraph") or () if ";" not in text]
    for name in sorted(found[0] for found in named if found is not None):
        try:
            yield Check(name, True, version(name))
        except PackageNotFoundError:
            yield Check(name, False, "not installed; reinstall divergraph")


def _extras() -> Iterator[Check]:
    for module, (extra, purpose) in _EXTRAS.items():
        fine = util.find_spec(module) is not None
        how = "installed" if fine else f"not installed: pip install 'divergraph[{extra}]'"
        yield Check(module, fine, f"{how} (for {purpose})", optional=True)


def _store(url: str) -> Check:
    from graphstore.open_store import open_store

    try:
        with open_store(url) as store:
            runs, graphs = len(store.runs()), len(store.graphs())
    except DivergraphError as error:
        return Check("store", False, f"{url}: {error}")
    return Check("store", True, f"{url}: {counted(runs, 'run')}, {counted(graphs, 'graph')}")
