"""Runs to report on, and a real browser to look at the pages with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from headless_browser import Browser, browser_of_tests

from divergraph.cli.main import run
from graphstore.open_store import open_store


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory, lenet) -> Path:
    """A store with ``fault``, the LeNet run with a fault."""
    store = tmp_path_factory.mktemp("reports") / "store"
    sides = ["--golden", lenet / "model.ckpt.meta", "--golden-dump", lenet / "golden"]
    sides += ["--device", lenet / "npu_fault/graph", "--device-dump", lenet / "npu_fault/dump"]
    arguments = ["compare", *map(str, sides), "--method", "thresholds"]
    assert run([*arguments, "--run", "fault", "--store", str(store)]) == 1
    return store


@pytest.fixture(scope="session")
def hostile_store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "store"
    from hostile_run import hostile_run

    with open_store(str(folder)) as store:
        store.save_run(hostile_run())
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with browser_of_tests() as browser:
        yield browser
