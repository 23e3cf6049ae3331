"""A question of a user that takes too much ends its own process, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from full_run import sample_run

from graphstore.cancellation import Cancellation, CancelledError
from graphstore.contract import QueryParameters
from graphstore.embedded import query_process
from graphstore.embedded.query_process import MEMORY_VARIABLE
from graphstore.errors import QueryError, StoreError
from graphstore.open_store import open_store

pytestmark = pytest.mark.thorough

HUNGRY = "UNWIND range(1, 100000000) AS x RETURN x"
ENDLESS = "UNWIND range(1, 60000) AS x UNWIND range(1, 60000) AS y RETURN sum(x * y % 7)"
NAMES = "MATCH (r:Run) RETURN r.name"


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "store")) as opened:
        opened.save_run(sample_run("one"))
        yield opened


def processes(store):
    (opened,) = store._databases._open.values()
    return opened.processes


def test_what_needs_too_much_memory_is_refused_and_the_next_question_answered(store, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "300")
    for _ in range(2):
        with pytest.raises(QueryError, match="more memory than 300 MiB") as told:
            store.query(HUNGRY, QueryParameters(limit=10, timeout=60.0))
        assert MEMORY_VARIABLE in told.value.hint
        assert store.query(NAMES, QueryParameters()).rows == (("one",),)


def test_one_process_answers_one_question_after_the_other(store):
    store.query(NAMES, QueryParameters())
    (first,) = processes(store)._idle
    with pytest.raises(QueryError, match="not in scope") as told:
        store.query("RETURN nothing", QueryParameters())
    assert told.value.position == 7
    store.query(NAMES, QueryParameters())
    assert processes(store)._idle == [first]


def test_questions_at_once_have_a_process_each(store):
    answers = []

    def ask() -> None:
        answers.append(store.query(NAMES, QueryParameters()).rows)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(("one",),)] * 3
    assert 1 <= len(processes(store)._idle) <= 3


@pytest.mark.slow
def test_what_takes_too_long_is_ended(store):
    before = time.monotonic()
    with pytest.raises(QueryError, match=r"longer than 0\.5 s"):
        store.query(ENDLESS, QueryParameters(timeout=0.5))
    assert time.monotonic() - before < 30


@pytest.mark.slow
def test_the_start_of_its_process_takes_nothing_of_its_time(store, monkeypatch):
    start = query_process.QueryProcesses._started

    def started_slowly(processes):
        process = start(processes)
        os.kill(process._process.pid, signal.SIGSTOP)
        threading.Timer(2.5, os.kill, (process._process.pid, signal.SIGCONT)).start()
        return process

    monkeypatch.setattr(query_process.QueryProcesses, "_started", started_slowly)
    monkeypatch.setattr(query_process, "_GRACE_SECONDS", -8.0)
    assert store.query(NAMES, QueryParameters(timeout=10.0)).rows == (("one",),)


def test_it_can_be_stopped(store):
    stop = Cancellation()
    threading.Timer(0.5, stop.cancel).start()
    with pytest.raises(CancelledError):
        store.query(ENDLESS, QueryParameters(timeout=120.0, cancellation=stop))


@pytest.mark.usefixtures("ctrl_c_heard")
def test_what_ctrl_c_left_is_no_answer_to_the_next_question(store):
    store.query(NAMES, QueryParameters())
    (asked,) = processes(store)._idle
    # to the process, as a terminal does: one raised in a thread waits for the read of the first
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        store.query(ENDLESS, QueryParameters(timeout=120.0))
    assert asked.ended is not None
    assert store.query(NAMES, QueryParameters()).rows == (("one",),)


def test_closing_the_store_ends_it(store):
    store.query("RETURN 1", QueryParameters())
    threading.Timer(0.5, store.close).start()
    with pytest.raises(StoreError, match="closed while a query ran"):
        store.query(ENDLESS, QueryParameters(timeout=120.0))


@pytest.mark.parametrize("given", ["much", "0", "-3"])
def test_the_variable_is_a_number_of_mib(store, monkeypatch, given):
    monkeypatch.setenv(MEMORY_VARIABLE, given)
    with pytest.raises(QueryError, match="is no number of MiB"):
        store.query(NAMES, QueryParameters())
