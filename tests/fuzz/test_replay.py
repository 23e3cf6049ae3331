"""Every fuzz harness over its corpus: what was once found stays mended."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent
CORPUS = FOLDER / "corpus"
EDGES = {
    "empty": b"",
    "zero": b"\x00",
    "zeros": bytes(64),
    "text": b"hello world\n",
    "braces": b"{" * 1000,
    "high bytes": b"\xff" * 100,
}


def load(harness: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(harness.stem, harness)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def harnesses() -> dict[str, Callable[[bytes], None]]:
    """What takes the inputs of each corpus."""
    found = {}
    for file in sorted(FOLDER.glob("fuzz_*.py")):
        module = load(file)
        if hasattr(module, "READERS"):
            found |= {kind: partial(module.one_input, kind) for kind in module.READERS}
        else:
            found[file.stem.removeprefix("fuzz_")] = module.one_input
    return found


HARNESSES = harnesses()


def test_every_harness_has_a_corpus():
    assert {folder.name for folder in CORPUS.iterdir()} == set(HARNESSES)
    assert all(any((CORPUS / name).iterdir()) for name in HARNESSES)


@pytest.mark.parametrize(
    "found", sorted(CORPUS.glob("*/*")), ids=lambda p: f"{p.parent.name}-{p.name}"
)
def test_what_was_found_stays_mended(found):
    HARNESSES[found.parent.name](found.read_bytes())


@pytest.mark.parametrize("data", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("name", HARNESSES)
def test_edges_every_reader_must_stand(name, data):
    HARNESSES[name](data)
