"""Every fuzz harness over its corpus: what was once found stays mended."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent
HARNESSES = sorted(FOLDER.glob("fuzz_*.py"))
INPUTS = [
    pytest.param(harness, found, id=f"{harness.stem}-{found.name}")
    for harness in HARNESSES
    for found in sorted((FOLDER / "corpus" / harness.stem.removeprefix("fuzz_")).glob("*"))
]
EDGES = {
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


@pytest.mark.parametrize("harness", HARNESSES, ids=lambda path: path.stem)
def test_every_harness_has_a_corpus(harness):
    corpus = FOLDER / "corpus" / harness.stem.removeprefix("fuzz_")
    assert any(corpus.iterdir()), f"no inputs in {corpus}"


@pytest.mark.parametrize(("harness", "found"), INPUTS)
def test_what_was_found_stays_mended(harness, found):
    load(harness).one_input(found.read_bytes())


@pytest.mark.parametrize("data", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize("harness", HARNESSES, ids=lambda path: path.stem)
def test_edges_every_reader_must_stand(harness, data):
    load(harness).one_input(data)
