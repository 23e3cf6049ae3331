"""Jobs with a cache of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """Journals of the tests lie in a folder of their own."""
    monkeypatch.setenv("DIVERGRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jobs"
