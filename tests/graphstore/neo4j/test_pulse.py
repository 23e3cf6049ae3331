"""A server that takes connections and says nothing holds nobody up who has little patience."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from graphstore.errors import StoreError
from graphstore.neo4j import Neo4jStore, waiting
from graphstore.neo4j.address import parse_address
from graphstore.neo4j.waiting import NoPulseError, Pulse


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Its connections are taken by the kernel; nobody answers until it is accepted."""
    monkeypatch.setattr(waiting, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "_LOOK_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def url_of(listener: socket.socket) -> str:
    return f"bolt://127.0.0.1:{listener.getsockname()[1]}"


def test_who_asks_a_frozen_server_is_told(frozen: socket.socket) -> None:
    with Neo4jStore(url_of(frozen), "neo4j", "secret", patience=2.0) as store:
        for _ in range(2):
            with pytest.raises(StoreError, match="Neo4j does not answer: it hangs") as told:
                store.runs()
            assert told.value.retryable
        with pytest.raises(StoreError, match="it may be made or not"):
            store._wire.change(lambda run: run("CREATE (n)"))


def test_it_is_asked_again_once_it_says_something(frozen: socket.socket) -> None:
    felt, never = Pulse(parse_address(url_of(frozen))), threading.Event()
    with pytest.raises(NoPulseError):
        felt.answer_of(never.wait)
    assert felt.is_gone
    frozen.settimeout(0.1)  # who looked may have seen it before the last is taken
    while felt.is_gone:
        with suppress(TimeoutError):
            near, _ = frozen.accept()
            near.close()
    assert felt.answer_of(lambda: 7) == 7
    never.set()


def test_a_server_that_lives_is_waited_for(frozen: socket.socket) -> None:
    """It answers others while it works on what was asked."""
    felt, done = Pulse(parse_address(url_of(frozen))), threading.Event()

    def accept() -> None:
        for _ in range(3):
            near, _ = frozen.accept()
            near.close()
        done.set()

    threading.Thread(target=accept, daemon=True).start()
    assert felt.answer_of(done.wait)


@pytest.mark.parametrize("error", [TimeoutError("mine"), KeyError("mine")])
def test_an_error_is_raised_as_it_is(frozen: socket.socket, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match="mine"):
        Pulse(parse_address(url_of(frozen))).answer_of(fail)
