"""The wire to a Neo4j server: sessions, retries, batches, and errors as ours."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.cypher.statements import load_statements
from graphstore.errors import QueryError, StoreError
from graphstore.neo4j.address import parse_address
from graphstore.neo4j.local_server import running_on
from graphstore.neo4j.local_server.coming_back import comes_back, heap_of, is_started_again
from graphstore.neo4j.local_server.managed import is_running
from graphstore.neo4j.passwords import Password
from graphstore.neo4j.plain_values import SCALARS, plain_value
from graphstore.neo4j.server_errors import (
    ServerRequest,
    bad_driver_url,
    check_server_version,
    is_hopeless,
    no_pulse,
    server_error,
    wire_error,
)
from graphstore.neo4j.waiting import NoPulseError, Patience, Pulse, answered_in_time

if TYPE_CHECKING:
    import neo4j

_STATEMENTS = load_statements("server.neo4j")

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 20.0
_READ_RETRY_SECONDS = 30.0
_WRITE_RETRY_SECONDS = 60.0
"""A long import, and what it reads in between, outlives a restart of the server."""
_EXPLAIN = "EXPLAIN "
CHANGE_SECONDS = 60.0
"""The server ends a change that takes longer: who made it may sleep, and others wait for it."""
_UNSURE = 3
"""Times a change is done again that may be done already."""

_T = TypeVar("_T")

Statement: TypeAlias = Callable[..., list[dict[str, Any]]]
"""Runs a statement with its parameters in a transaction; its rows as dicts."""

# Without a handler, Python prints the driver's warnings ("will be retried in 1 s") on
# standard error, into the terminal UI too.
logging.getLogger("neo4j").addHandler(logging.NullHandler())


class Connection:
    """One driver and the database it works in.

    The server is first spoken to when something is asked: that fails at once. Later, what
    is lost with a connection is tried again, for half a minute (reading) or one.
    """

    def __init__(
        self,
        url: str,
        user: str,
        password: str | Password,
        database: str | None,
        source: str = "",
        patience: float | None = None,
    ) -> None:
        """*source* says where the password is from; a lost server is asked for *patience* s."""
        import neo4j

        self.url, self.database, self._source = url, database, source
        self._patience, self._pulse = Patience(patience), Pulse(parse_address(url))
        self._met = False
        self._meeting = threading.Lock()
        hidden = Password(password) if isinstance(password, str) else password
        try:
            self._driver = neo4j.GraphDatabase.driver(
                url,
                # an object and no tuple, and no variable of ours: no list of variables in a
                # traceback shows the password
                auth=neo4j.basic_auth(user, hidden.reveal()),
                connection_timeout=self._patience.connecting(_CONNECT_SECONDS),
                connection_acquisition_timeout=self._patience.connecting(_ANSWER_SECONDS),
                # a pooled connection that was idle for a minute is tried before its use
                liveness_check_timeout=60.0,
                # the driver logs hints on missing labels; an empty store has none yet
                notifications_min_severity=neo4j.NotificationMinimumSeverity.OFF,
            )
        except (neo4j.exceptions.ConfigurationError, ValueError) as error:
            raise bad_driver_url(error, url) from error

    def ask(self, cypher: str, params: Mapping[str, object], limits: QueryLimits) -> QueryResult:
        """The rows of a user's own query; as :meth:`read`, but what ends the managed server is
        not asked again: the server is started again instead.
        """
        address = parse_address(self.url)
        heap = heap_of(address)
        if not heap:
            return answered_in_time(lambda: self.read(cypher, params, limits), limits.timeout)
        if not is_running():
            comes_back(address)
        begun = time.time()
        try:
            return answered_in_time(
                lambda: self.read(cypher, params, limits, patience=0.0),
                limits.timeout,
                running_on.watch_in_background,
            )
        except StoreError as error:
            if not error.retryable or self._pulse.is_gone:
                raise
            if not running_on.was_ended_since(begun) and is_started_again(address):
                self._met = False
                raise QueryError(
                    f"the server ended while it answered, out of its memory of {heap}, "
                    "and is started again",
                    hint="narrow it, or give the server more: `divergraph neo4j stop`, then "
                    "`divergraph neo4j start --heap 4g`",
                ) from error
        return self.read(cypher, params, limits)

    def read(
        self,
        cypher: str,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
        *,
        patience: float | None = None,
    ) -> QueryResult:
        """The rows of a query that only reads.

        If the connection is lost on the way, all is asked again, for *patience* seconds: nothing
        was handed out.

        Raises:
            QueryError: the server refuses the query, it takes too long or is cancelled.
            StoreError: the server cannot be used.
        """
        import neo4j

        stopped, timeout = limits.cancellation or Cancellation(), limits.timeout
        name = secrets.token_hex(8)

        @neo4j.unit_of_work(metadata={running_on.QUERY_NAME: name}, timeout=timeout)
        def work(transaction: neo4j.ManagedTransaction) -> QueryResult:
            with self._errors(cypher, timeout, stopped, inside=True):
                try:
                    result = transaction.run(cypher, dict(params))
                except (OverflowError, TypeError, ValueError) as error:
                    # what the driver says of values it cannot send
                    raise QueryError(f"a parameter cannot be used: {error}") from error
                columns = tuple(result.keys())
                rows: list[tuple[object, ...]] = []
                for record in result:
                    stopped.check()
                    if len(rows) == limits.limit:
                        return QueryResult(columns, tuple(rows), truncated=True)
                    values = record.values()
                    rows.append(
                        tuple([v if type(v) in SCALARS else plain_value(v) for v in values])
                    )
                return QueryResult(columns, tuple(rows))

        def asked() -> QueryResult:
            with (
                self._errors(cypher, timeout, stopped),
                self._session(neo4j.READ_ACCESS, patience) as session,
                stopped.stopping(lambda: self._terminate(name)),
            ):
                return session.execute_read(work)

        return self._in_time(asked)

    def plan(self, cypher: str, params: Mapping[str, object]) -> str:
        """How the server would run *cypher*: its plan as a table.

        Raises:
            QueryError: the server refuses the query.
            StoreError: the server cannot be used.
        """
        import neo4j

        def asked() -> neo4j.ResultSummary:
            with self._errors(cypher), self._session(neo4j.READ_ACCESS) as session:
                return session.run(neo4j.Query(_EXPLAIN + cypher), dict(params)).consume()

        try:
            summary = self._in_time(asked)
        except QueryError as error:
            place = None if error.position is None else max(0, error.position - len(_EXPLAIN))
            raise QueryError(error.what, position=place, hint=error.hint) from error
        plan: Any = summary.plan or {}
        return str(plan.get("args", {}).get("string-representation", "")).rstrip()

    def _terminate(self, name: str) -> None:
        """Stop the query sent under *name*, if it runs."""
        import neo4j

        # Where the server is gone, the query ends with an error of its own.
        with suppress(StoreError), self._errors(), self._session(neo4j.READ_ACCESS) as session:
            session.run(
                _STATEMENTS["terminate"], {"key": running_on.QUERY_NAME, "name": name}
            ).consume()

    def look(self, work: Callable[[Statement], _T]) -> _T:
        """Do *work*, which only reads, in one transaction; as :meth:`change` otherwise."""
        import neo4j

        def asked() -> _T:
            with self._errors():
                return self._transact(neo4j.READ_ACCESS, work)

        return self._in_time(asked)

    def change(self, work: Callable[[Statement], _T], *, again: bool = False) -> _T:
        """Do *work* in one writing transaction; it is done again if the server lost it.

        *work* gets a function that runs a statement with parameters and gives its rows as
        dicts. With *again*, it is also done again if the connection broke while the
        server confirmed it: then *work* has to see whether it is done already.

        Raises:
            StoreError: the server cannot be used, refuses it, or takes a minute over it.
        """
        import neo4j

        def asked() -> _T:
            with self._errors():
                for _ in range(_UNSURE if again else 0):
                    with suppress(neo4j.exceptions.IncompleteCommit):
                        return self._transact(neo4j.WRITE_ACCESS, work)
                return self._transact(neo4j.WRITE_ACCESS, work)

        return self._in_time(asked, changes=True)

    def _in_time(self, ask: Callable[[], _T], *, changes: bool = False) -> _T:
        """What *ask* gives; with little patience, nobody waits for a server that is frozen."""
        if not self._patience.is_little:
            return ask()
        try:
            return self._pulse.answer_of(ask)
        except NoPulseError as error:
            raise no_pulse(self._asked(), changes=changes) from error

    def _transact(self, access: str, work: Callable[[Statement], _T]) -> _T:
        import neo4j

        @neo4j.unit_of_work(timeout=CHANGE_SECONDS)
        def transact(transaction: neo4j.ManagedTransaction) -> _T:
            def run(cypher: str, **params: object) -> list[dict[str, Any]]:
                with self._errors(inside=True):
                    return transaction.run(cypher, params).data()

            return work(run)

        with self._session(access) as session:
            reads = access == neo4j.READ_ACCESS
            return (session.execute_read if reads else session.execute_write)(transact)

    def define(self, statement: str) -> None:
        """Run a statement of the schema; somebody else may have done the same just now."""
        import neo4j

        def work(transaction: neo4j.ManagedTransaction) -> None:
            with self._errors(inside=True):
                transaction.run(statement).consume()

        def asked() -> None:
            with self._errors(), self._session(neo4j.WRITE_ACCESS) as session:
                try:
                    session.execute_write(work)
                except neo4j.exceptions.ClientError as error:
                    if not (error.code or "").endswith("AlreadyExists"):
                        raise

        self._in_time(asked)

    def server_agent(self) -> str:
        """What the server calls itself, like ``Neo4j/5.26.30``.

        Raises:
            StoreError: the server cannot be used.
        """

        def asked() -> str:
            with self._errors():
                return str(self._driver.get_server_info().agent)

        return self._in_time(asked)

    def check_writable(self) -> None:
        """Return if the server lets this database be written.

        Raises:
            StoreError: it is read-only, or the server cannot be used.
        """
        rows = self.read(_STATEMENTS["access"], {"name": self.database}).rows
        if ("read-write",) not in rows:
            raise StoreError(
                "the database is read-only", where=self.url, hint="its administrator made it so"
            )

    def close(self) -> None:
        """Close all connections."""
        self._pulse.close()
        self._driver.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _session(self, access: str, patience: float | None = None) -> Iterator[neo4j.Session]:
        import neo4j

        self._meet()
        if patience is None:
            reads = access == neo4j.READ_ACCESS
            patience = self._patience.asking(_READ_RETRY_SECONDS if reads else _WRITE_RETRY_SECONDS)
        with self._driver.session(
            database=self.database,
            default_access_mode=access,
            max_transaction_retry_time=patience,
        ) as session:
            yield session

    def _meet(self) -> None:
        """Look at the server before it is first used: is it there, does it let us in, is it new?

        Nothing is tried again here: a wrong URL or password is said at once. Only a managed
        server that ended by itself is waited for.
        """
        with self._meeting:
            if not self._met:
                check_server_version(self._agent(), self.url)
                self._met = True

    def _agent(self) -> str:
        import neo4j

        try:
            return str(self._driver.get_server_info().agent)
        except neo4j.exceptions.DriverError:
            if not comes_back(parse_address(self.url)):
                raise
            return str(self._driver.get_server_info().agent)

    def _asked(self, cypher: str | None = None, timeout: float | None = None) -> ServerRequest:
        return ServerRequest(self.url, self.database, self._source, cypher, timeout)

    @contextmanager
    def _errors(
        self,
        cypher: str | None = None,
        timeout: float | None = None,
        stopped: Cancellation | None = None,
        *,
        inside: bool = False,
    ) -> Iterator[None]:
        """Turn the driver's errors into ours; *inside* a transaction only those that would come
        again, as the driver tries it again after others."""
        import neo4j

        try:
            yield
        except neo4j.exceptions.Neo4jError as error:
            if stopped is not None:
                stopped.check()
            if inside and not is_hopeless(error):
                raise
            raise server_error(error, self._asked(cypher, timeout)) from error
        except neo4j.exceptions.DriverError as error:
            if inside:
                raise
            self._patience.in_vain()
            raise wire_error(error, self._asked(cypher, timeout)) from error
