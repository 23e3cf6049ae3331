"""The demo's run, made once: it never changes."""

from __future__ import annotations

import pytest

import divergraph as dg


@pytest.fixture(scope="session")
def demo_run():
    return dg.demo()
