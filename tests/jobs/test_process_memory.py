"""The memory of a process counts with that of whatever it started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from divergraph.jobs.background.process_memory import process_memory

GRANDCHILD = "held = bytearray(b'x') * 80_000_000; print('there', flush=True); input()"
CHILD = """
import subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, start_new_session=True
)
input()
child.communicate(b"end")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says")
def test_what_a_process_started_counts_too() -> None:
    """Also in a session of its own, as models are run."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, GRANDCHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        held = process_memory(process.pid)
        process.communicate("end\n")
    assert 80_000_000 < held < 200_000_000
    assert process_memory(process.pid) == 0
