"""The generated pages of docs/reference are what ``docs/reference/make.py`` writes today."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
PAGES = runpy.run_path(str(FOLDER / "make.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name):
    kept = (FOLDER / name).read_text(encoding="utf-8")
    assert kept == PAGES[name](), "python docs/reference/make.py"
