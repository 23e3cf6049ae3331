"""How long those are kept waiting who have little patience with a server that is away."""

from __future__ import annotations

import pytest

from graphstore.neo4j import waiting
from graphstore.neo4j.waiting import Patience


def test_without_limits_of_their_own_all_wait_as_usual() -> None:
    usual = Patience(None)
    usual.in_vain()
    assert (usual.asking(30.0), usual.connecting(10.0)) == (30.0, 10.0)


def test_nobody_waits_again_for_what_was_waited_for_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    little = Patience(2.0)
    assert (little.asking(30.0), little.connecting(10.0), little.connecting(1.0)) == (2.0, 5.0, 1.0)
    little.in_vain()
    assert little.asking(30.0) == 0.0
    monkeypatch.setattr(waiting, "_AWAY_SECONDS", 0.0)
    little.in_vain()
    assert little.asking(30.0) == 2.0
