"""Ctrl-C during a step that must not be left half-way comes after it."""

import os
import signal
import threading

import pytest

from graphstore.neo4j.local_server.managed import interrupts_held

pytestmark = pytest.mark.usefixtures("ctrl_c_heard")


def test_an_interrupt_comes_when_the_step_is_done():
    done = []

    def step():
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_of_the_step_is_what_is_raised():
    def step():
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        step()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_nothing_happens():
    with interrupts_held():
        pass


def test_other_threads_have_nothing_to_hold():
    seen = []

    def step():
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
