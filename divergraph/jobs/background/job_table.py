"""The queue of jobs, in a database that several servers of one store may share.

Each change is one transaction, so that a server that is killed leaves no job half claimed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from divergraph.jobs.background.shelf import new_job_id
from graphstore.errors import StoreError, UnknownNameError

_BUSY_SECONDS = 30.0
_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, command TEXT NOT NULL, words TEXT NOT NULL,
    state TEXT NOT NULL, asked REAL NOT NULL, started REAL, ended REAL,
    attempts INTEGER NOT NULL DEFAULT 0, exit_code INTEGER, error TEXT NOT NULL DEFAULT ''
) STRICT
"""
_LATER = {
    "parent": "TEXT NOT NULL DEFAULT ''",
    "part": "TEXT NOT NULL DEFAULT '[]'",
    "seal": "TEXT NOT NULL DEFAULT ''",
}
"""Columns that a queue made before jobs had children, or seals, lacks."""
_BY_PARENT = "CREATE INDEX IF NOT EXISTS jobs_by_parent ON jobs (parent)"
_BY_STATE = "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state)"
_WORKING = """
FROM jobs AS working WHERE state = 'running' AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE parent = working.id AND state IN ('queued', 'running'))
"""
"""A job whose children are not over waits for them, and takes nobody's turn."""
_FAIREST = f"""
SELECT id FROM jobs
LEFT JOIN (SELECT owner, count(*) AS busy {_WORKING} GROUP BY owner) USING (owner)
WHERE state = 'queued' AND coalesce(busy, 0) < ? ORDER BY coalesce(busy, 0), asked LIMIT 1
"""  # noqa: S608 - our own texts
"""Who has least that runs comes first, then who waits longest."""
_ADD = """
INSERT INTO jobs (id, owner, command, words, state, asked, parent, part)
VALUES (?, ?, ?, ?, 'queued', ?, ?, ?)
"""


_SEAL_ROWS = """
CREATE TRIGGER IF NOT EXISTS seal_{when} AFTER {what} ON jobs BEGIN
    UPDATE jobs SET seal = seal_of({new}) WHERE id = new.id{if_sound};
END
"""
_IF_SOUND = " AND old.seal IN ('', seal_of({old}))"
"""SQLite finds no changed bits; what a job is to do, and whose it is, must not change by itself."""
_DAMAGED = "its entry in the queue is damaged: ask for it again"
_OVER_BEFORE = """
SELECT id FROM jobs AS old WHERE parent = '' AND state NOT IN ('queued', 'running')
AND coalesce(ended, asked) < ? AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE parent = old.id AND state IN ('queued', 'running'))
"""


class QueuedState(StrEnum):
    """Where a job of the queue is; *lost* is one whose process ended without a word, each time."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as its row says. Times are seconds since 1970; ``exit_code`` is that of its command.

    A child does the ``part`` of the work of its ``parent``, whose words it has.
    """

    id: str
    owner: str
    command: str
    words: tuple[str, ...]
    state: QueuedState
    asked: float
    started: float | None
    ended: float | None
    attempts: int
    exit_code: int | None
    error: str
    parent: str
    part: tuple[tuple[int | None, ...], ...]


class JobTable:
    """The jobs in the database *path*."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it.

        Raises:
            StoreError: it cannot be read or made, or is damaged.
        """
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        with self._changing() as database:
            ((integrity, *_), *_) = database.execute("PRAGMA integrity_check(1)")
            if integrity != "ok":
                hint = "move it away: jobs that wait are asked for again, runs stay"
                raise StoreError("the queue of jobs is damaged", where=str(path), hint=hint)
            database.execute(_TABLE)
            columns = {row[1] for row in database.execute("PRAGMA table_info(jobs)")}
            for column in _LATER.keys() - columns:
                database.execute(f"ALTER TABLE jobs ADD COLUMN {column} {_LATER[column]}")
            new, old = (", ".join(f"{row}.{name}" for name in _NAMES) for row in ("new", "old"))
            if_sound = _IF_SOUND.format(old=old)
            for trigger in (
                _SEAL_ROWS.format(when="new", what="INSERT", new=new, if_sound=""),
                _SEAL_ROWS.format(
                    when="changed", what=f"UPDATE OF {_COLUMNS}", new=new, if_sound=if_sound
                ),
            ):
                database.execute(trigger)
            database.execute(_BY_PARENT)
            database.execute(_BY_STATE)

    def add(self, owner: str, command: str, words: Sequence[str]) -> QueuedJob:
        """Put a job at the end of the queue."""
        now = time.time()
        name = new_job_id(now)
        with self._changing() as database:
            row = (name, owner, command, json.dumps(list(words)), now, "", "[]")
            database.execute(_ADD, row)
        return self.job(name)

    def add_children(
        self, parent: QueuedJob, parts: Sequence[Sequence[Sequence[object]]]
    ) -> list[QueuedJob]:
        """Put a job in the queue for each of these parts of what *parent* does."""
        words = json.dumps(list(parent.words))
        names: list[str] = []
        with self._changing() as database:
            for part in parts:
                now = time.time()
                names.append(new_job_id(now))
                row = (names[-1], parent.owner, parent.command, words, now, parent.id)
                database.execute(_ADD, (*row, json.dumps([list(values) for values in part])))
        return [self.job(name) for name in names]

    def claim(self, of_one_owner: int) -> QueuedJob | None:
        """The job that is to run next, which now counts as running; None if none may: each owner
        has *of_one_owner* at most."""
        while True:
            with self._changing() as database:
                row = database.execute(_FAIREST, (of_one_owner,)).fetchone()
                if row is None:
                    return None
                database.execute(
                    "UPDATE jobs SET state = 'running', started = ?, attempts = attempts + 1 "
                    "WHERE id = ?",
                    (time.time(), row[0]),
                )
            job = self.job(row[0])
            if job.state is QueuedState.RUNNING:
                return job
            self.change(job.id, QueuedState.LOST, ended=time.time())  # damaged: nobody's turn

    def change(self, name: str, state: QueuedState, **more: Any) -> None:
        """Note the state of a job, and *more* of its columns."""
        columns = {"state": state, **more}
        settings = ", ".join(f"{column} = ?" for column in columns)
        with self._changing() as database:
            database.execute(
                f"UPDATE jobs SET {settings} WHERE id = ?",  # noqa: S608 - our own columns
                (*columns.values(), name),
            )

    def cancel(self, name: str) -> bool:
        """Take a job that still waits off the queue; False if it does not wait."""
        with self._changing() as database:
            changed = database.execute(
                "UPDATE jobs SET state = 'stopped', ended = ? WHERE id = ? AND state = 'queued'",
                (time.time(), name),
            )
            return changed.rowcount == 1

    @property
    def path(self) -> Path:
        """The file of the database."""
        return self._path

    def job(self, name: str) -> QueuedJob:
        """One job.

        Raises:
            UnknownNameError: there is none of this id.
        """
        rows = self._rows("WHERE id = ?", name)
        if not rows:
            raise UnknownNameError("job", name)
        return rows[0]

    def jobs(self, state: QueuedState | None = None, most: int = 1000) -> list[QueuedJob]:
        """The last jobs that are nobody's children, or those of them in *state*, newest first."""
        if state is None:
            return self._rows("WHERE parent = '' ORDER BY asked DESC LIMIT ?", most)
        rest = "WHERE parent = '' AND state = ? ORDER BY asked DESC LIMIT ?"
        return self._rows(rest, state, most)

    def children(self, parent: str) -> list[QueuedJob]:
        """Those of one job, in the order of their parts."""
        return self._rows("WHERE parent = ? ORDER BY asked, id", parent)

    def open_jobs(self) -> list[QueuedJob]:
        """Those that wait or run, children too, newest first."""
        return self._rows("WHERE state IN ('queued', 'running') ORDER BY asked DESC")

    def over_before(self, moment: float) -> list[str]:
        """The ids of those that are nobody's children and ended before *moment*, children too."""
        with self._opened() as database:
            return [str(row[0]) for row in database.execute(_OVER_BEFORE, (moment,))]

    def forget(self, name: str) -> None:
        """Know nothing more of a job and its children."""
        with self._changing() as database:
            database.execute("DELETE FROM jobs WHERE ? IN (id, parent)", (name,))

    def working(self) -> int:
        """How many run and do not wait for their children."""
        with self._opened() as database:
            return int(database.execute(f"SELECT count(*) {_WORKING}").fetchone()[0])

    def close(self) -> None:
        """Let go of the database; it is opened again where it is needed."""
        with self._lock:
            self._close()

    def _rows(self, rest: str, *values: Any) -> list[QueuedJob]:
        text = f"SELECT {_COLUMNS}, seal FROM jobs {rest}"  # noqa: S608 - our own texts
        with self._opened() as database:
            rows = database.execute(text, values).fetchall()
        return [_job_of(row) for row in rows]

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, in which nobody else changes anything."""
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                if database.in_transaction:  # a full disk has ended it already
                    database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database, for one thread after the other; opened anew after trouble."""
        with self._lock:
            try:
                if self._connection is None:
                    with suppress(OSError):  # SQLite says it
                        self._path.touch(0o600)  # its own files beside it get the same
                    self._connection = sqlite3.connect(
                        self._path,
                        timeout=_BUSY_SECONDS,
                        isolation_level=None,
                        check_same_thread=False,
                    )
                    self._connection.create_function("seal_of", -1, _seal_of, deterministic=True)
                yield self._connection
            except (sqlite3.Error, UnicodeDecodeError) as error:  # a damaged text
                self._close()
                raise StoreError(f"the queue of jobs: {error}", where=str(self._path)) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_NAMES = [field.name for field in fields(QueuedJob)]
_COLUMNS = ", ".join(_NAMES)


def _seal_of(*values: Any) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:32]


def _job_of(row: tuple[Any, ...]) -> QueuedJob:
    """The job of a row; one that is not what was written is lost."""
    *columns, seal = row
    values = dict(zip(_NAMES, columns, strict=True))
    if seal not in ("", _seal_of(*columns)):
        fields_lost = {"state": QueuedState.LOST, "error": _DAMAGED, "words": (), "part": ()}
        return QueuedJob(**{**values, **fields_lost})
    values["words"] = tuple(json.loads(values["words"]))
    values["part"] = tuple(map(tuple, json.loads(values["part"])))
    return QueuedJob(**{**values, "state": QueuedState(values["state"])})
