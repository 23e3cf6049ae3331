"""Works that workers can load: they get this folder on their path with the tests' own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """Journals of the tests lie in a folder of their own."""
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jobs"


sys.path.insert(0, str(Path(__file__).parent))
