"""Who writes to the server just now: signs of life, and batches done exactly once.

A writer has a node ``Writer`` for each connection it writes over, with the server's time
of its last sign of life. Every batch takes the lock on such a node first: who wants to
clear what a dead writer left takes the nodes away, and no batch can come after it.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphstore.cypher.statements import load_statements
from graphstore.errors import StoreError
from graphstore.process_start import process_start

if TYPE_CHECKING:
    from graphstore.neo4j.connection import Connection, Statement

LEASE_SECONDS = 60.0
"""A writer that gave no sign of life for so long, by the server's clock, is dead."""
_BEAT_SECONDS = 10.0

_T = TypeVar("_T")

_STATEMENTS = load_statements("writers.neo4j")


@dataclass(frozen=True, slots=True)
class Known:
    """What is said of a writer: where it runs, and whether it can still write."""

    token: str
    place: str
    is_dead: bool


class Writer:
    """One who writes, over *lanes* connections at once; see :meth:`living`."""

    def __init__(self, wire: Connection, lanes: int) -> None:
        self.token = secrets.token_hex(8)
        self.url = wire.url
        self.lanes = lanes
        self.spare = lanes
        """The lane for single statements while the others send rows."""
        self._wire = wire
        self._batches = [0] * (lanes + 2)

    @contextmanager
    def living(self) -> Iterator[Writer]:
        """Known to other writers as living while inside."""
        ids = [self._lane_id(lane) for lane in range(len(self._batches))]
        facts = {"writer": self.token, **_this_process()}
        self._wire.change(lambda run: run(_STATEMENTS["sign_in"], lanes=ids, facts=facts))
        ended = threading.Event()
        pulse = threading.Thread(target=self._beat, args=(ended,), daemon=True)
        pulse.start()
        try:
            yield self
        finally:
            ended.set()
            pulse.join()
            self._sign_off()

    def batch(self, lane: int, work: Callable[[Statement], _T], *, turn: bool = False) -> _T | None:
        """Do *work* in one transaction; None if the server has done it before.

        That is so if the connection broke just when the server confirmed it. With *turn*,
        no other change of state is under way meanwhile.

        Raises:
            StoreError: another program took this writer for dead and cleared its rows.
        """
        self._batches[lane] += 1
        number = self._batches[lane]

        def signed(run: Statement) -> _T | None:
            if turn:
                take_turn(run, self.token)
            rows = run(_STATEMENTS["sign"], lane=self._lane_id(lane), number=number)
            if not rows:
                raise lost_claim(self.url)
            return None if rows[0]["done"] >= number else work(run)

        try:
            return self._wire.change(signed, again=True)
        except StoreError as error:
            # The server ends the transaction of a client that sleeps.
            if server_code(error) and not self._is_known():
                raise lost_claim(self.url) from error
            raise

    def _is_known(self) -> bool:
        return bool(self._wire.read(_STATEMENTS["is_known"], {"token": self.token}).rows)

    def _lane_id(self, lane: int) -> str:
        return f"{self.token}#{lane}"

    def _beat(self, ended: threading.Event) -> None:
        """Give signs of life on a connection of its own; batches may take long."""
        while not ended.wait(_BEAT_SECONDS):
            try:
                self.batch(self.lanes + 1, lambda _: None)
            except StoreError:
                continue  # the next batch of rows fails as well, and says why

    def _sign_off(self) -> None:
        try:
            self._wire.change(lambda run: run(_STATEMENTS["sign_off"], token=self.token))
        except StoreError:
            return  # the server is gone: what stopped the writing said so, the lease runs out


def take_turn(run: Statement, token: str) -> None:
    """Wait until no other change of state is under way; lasts to the transaction's end."""
    run(_STATEMENTS["turn"], token=token)


def known_writers(run: Statement) -> dict[str, Known]:
    """The writers that signed in and did not sign off, by token."""
    writers = {}
    for row in run(_STATEMENTS["known"]):
        is_dead = row["silent"] > LEASE_SECONDS or _has_ended(row)
        writers[row["writer"]] = Known(row["writer"], row["place"], is_dead)
    return writers


def take_away(run: Statement, dead: Sequence[str], token: str) -> set[str]:
    """Let those of the *dead* write no more who really are; their tokens.

    Waits for a batch that is just under way and looks again: it was a sign of life.
    """
    run(_STATEMENTS["touch"], dead=dead, token=token)
    writers = known_writers(run)
    gone = {name for name in dead if name not in writers or writers[name].is_dead}
    run(_STATEMENTS["remove"], gone=sorted(gone))
    return gone


def server_code(error: StoreError) -> str:
    """The server's code for what went wrong; "" if it did not answer or it was not it."""
    return getattr(error.__cause__, "code", None) or ""


def lost_claim(url: str) -> StoreError:
    """The error of a writer whose rows were taken for those of a dead one."""
    return StoreError(
        "another program took this one for dead and removed what it had written",
        where=url,
        hint="do it again",
        retryable=True,
    )


def _this_process() -> dict[str, object]:
    process = os.getpid()
    host = socket.gethostname()
    return {
        "place": f"process {process} on {host}",
        "host": _host(host),
        "process": process,
        "process_start": process_start(process),
    }


def _has_ended(row: dict[str, Any]) -> bool:
    """Whether a writer was a process of this system and is no more."""
    if row["host"] is None or row["host"] != _host(socket.gethostname()):
        return False
    return bool(process_start(row["process"]) != row["process_start"])


def _host(name: str) -> str | None:
    """What tells this running system and its process numbers from all others.

    Two containers may have one name and different processes of one number. None where
    the system does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        numbers = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return None
    return f"{name} {boot} {numbers}"
