"""The queue of a server's jobs: who comes next, what a damaged or an older file of it is worth."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from divergraph.jobs.background.job_table import JobTable, QueuedState
from graphstore.errors import StoreError, UnknownNameError


@pytest.fixture
def table(tmp_path: Path) -> JobTable:
    """An empty queue."""
    return JobTable(tmp_path / "jobs.sqlite")


def test_who_has_least_comes_first_then_who_waits_longest(table: JobTable) -> None:
    names = [table.add(owner, "import", ("import", "x")).id for owner in ("a", "a", "a", "b")]
    taken = [table.claim(2) for _ in range(4)]
    assert [job and job.id for job in taken] == [names[0], names[3], names[1], None]
    assert table.job(names[2]).state is QueuedState.QUEUED
    with pytest.raises(UnknownNameError):
        table.job("none")


def test_two_servers_never_take_the_same_job(table: JobTable, tmp_path: Path) -> None:
    for number in range(10):
        table.add(f"user {number}", "import", ("import", "x"))
    other = JobTable(tmp_path / "jobs.sqlite")
    taken = [each.claim(1) for _ in range(5) for each in (table, other)]
    assert len({job.id for job in taken if job}) == 10


def test_a_queue_from_before_jobs_had_children_is_taken_over(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite")) as database:
        database.execute(
            "CREATE TABLE jobs (id TEXT PRIMARY KEY, owner TEXT NOT NULL, command TEXT NOT NULL, "
            "words TEXT NOT NULL, state TEXT NOT NULL, asked REAL NOT NULL, started REAL, "
            "ended REAL, attempts INTEGER NOT NULL DEFAULT 0, exit_code INTEGER, "
            "error TEXT NOT NULL DEFAULT '') STRICT"
        )
        values = "('old', 'ann', 'import', '[\"import\"]', 'ended', 1.0)"
        database.execute(
            f"INSERT INTO jobs (id, owner, command, words, state, asked) VALUES {values}"
        )
        database.commit()
    (job,) = JobTable(tmp_path / "jobs.sqlite").jobs()
    assert (job.id, job.words, job.parent, job.part) == ("old", ("import",), "", ())


def test_a_job_whose_entry_is_damaged_is_lost_and_others_take_its_turn(table: JobTable) -> None:
    first, second, third = (table.add("ann", "import", ("import", f"/x{n}")).id for n in range(3))
    table.close()
    text = table.path.read_bytes()
    table.path.write_bytes(
        text.replace(b'"/x0"', b'"/z0"').replace(b'["import", "/x1', b'?"import", "/x1')
    )
    again = JobTable(table.path)
    jobs = {job.id: job for job in again.jobs()}
    assert [jobs[name].state.value for name in (first, second, third)] == ["lost", "lost", "queued"]
    assert "damaged" in jobs[first].error
    assert table.path.stat().st_mode & 0o77 == 0
    claimed = again.claim(3)
    assert claimed is not None
    assert (claimed.id, claimed.words) == (third, ("import", "/x2"))
    assert again.open_jobs() == [claimed]
    again.close()
    table.path.write_bytes(text.replace(third.encode(), b"x" * len(third), 1))
    with pytest.raises(StoreError, match="damaged"):
        JobTable(table.path)


def test_who_waits_for_children_takes_nobodys_turn(table: JobTable, tmp_path: Path) -> None:
    table.add("ann", "compare", ("compare",))
    parent = table.claim(1)
    assert parent is not None
    assert (table.working(), table.claim(1)) == (1, None)
    first, second = table.add_children(parent, [[(0, None)], [(1, None), (2, None)]])
    assert (second.parent, second.part) == (parent.id, ((1, None), (2, None)))
    assert table.working() == 0
    claimed = table.claim(1)
    assert claimed is not None
    assert (claimed.id, table.working(), table.claim(1)) == (first.id, 1, None)
    assert [job.id for job in table.jobs()] == [parent.id]
    assert table.children(parent.id) == [claimed, second]
