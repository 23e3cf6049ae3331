"""The wire to a Neo4j server: sessions, batches, and errors as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from graphstore.contract import QueryResult
from graphstore.errors import InputError, QueryError, StoreError

if TYPE_CHECKING:
    import neo4j

_CONNECT_SECONDS = 10.0
_BATCH = 5000


class Connection:
    """One driver and the database it works in."""

    def __init__(self, url: str, user: str, password: str, database: str | None) -> None:
        import neo4j

        self.url = url
        self.database = database
        try:
            self._driver = neo4j.GraphDatabase.driver(
                url,
                auth=(user, password),
                connection_timeout=_CONNECT_SECONDS,
                connection_acquisition_timeout=_CONNECT_SECONDS * 2,
                max_transaction_retry_time=_CONNECT_SECONDS,
                # the driver logs hints on missing labels; an empty store has none yet
                notifications_min_severity=neo4j.NotificationMinimumSeverity.OFF,
            )
        except (neo4j.exceptions.ConfigurationError, ValueError) as error:
            raise InputError(f"not a usable Neo4j URL: {error}", where=url) from error

    def read(
        self,
        cypher: str,
        params: Mapping[str, object],
        *,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> QueryResult:
        """The rows of a query that only reads, at most *limit*.

        Raises:
            QueryError: the server refuses the query or it takes too long.
            StoreError: the server cannot be used.
        """
        import neo4j

        with (
            self._errors(cypher, timeout),
            self._session(neo4j.READ_ACCESS) as session,
        ):
            result = session.run(neo4j.Query(cypher, timeout=timeout), dict(params))
            columns = tuple(result.keys())
            rows: list[tuple[object, ...]] = []
            for record in result:
                if limit is not None and len(rows) == limit:
                    return QueryResult(columns, tuple(rows), truncated=True)
                rows.append(tuple(_plain(value) for value in record.values()))
            return QueryResult(columns, tuple(rows))

    def write(self, statements: Sequence[tuple[str, Mapping[str, object]]]) -> None:
        """Run *statements* in one transaction."""
        import neo4j

        def work(transaction: neo4j.ManagedTransaction) -> None:
            for cypher, params in statements:
                transaction.run(cypher, dict(params)).consume()

        with self._errors(), self._session(neo4j.WRITE_ACCESS) as session:
            session.execute_write(work)

    def write_rows(self, cypher: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run *cypher* on ``$rows``, a batch a transaction."""
        for first in range(0, len(rows), _BATCH):
            self.write([(cypher, {"rows": rows[first : first + _BATCH]})])

    def write_alone(self, cypher: str, params: Mapping[str, object]) -> None:
        """Run a statement that makes its own transactions."""
        import neo4j

        with self._errors(), self._session(neo4j.WRITE_ACCESS) as session:
            session.run(cypher, dict(params)).consume()

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()

    def _session(self, access: str) -> neo4j.Session:
        return self._driver.session(database=self.database, default_access_mode=access)

    @contextmanager
    def _errors(self, cypher: str | None = None, timeout: float | None = None) -> Iterator[None]:
        import neo4j

        try:
            yield
        except neo4j.exceptions.AuthError as error:
            raise StoreError(
                "Neo4j refuses the user name or password",
                where=self.url,
                hint="set NEO4J_USERNAME and NEO4J_PASSWORD",
            ) from error
        except neo4j.exceptions.Neo4jError as error:
            raise self._server_error(error, cypher, timeout) from error
        except neo4j.exceptions.DriverError as error:
            raise StoreError(
                f"cannot reach Neo4j: {str(error).partition(chr(10))[0]}",
                where=self.url,
                hint="is the server running there?",
                retryable=True,
            ) from error

    def _server_error(
        self, error: neo4j.exceptions.Neo4jError, cypher: str | None, timeout: float | None
    ) -> Exception:
        code, message = error.code or "", (error.message or "").partition("\n")[0]
        if code.endswith("DatabaseNotFound"):
            return StoreError(
                f"Neo4j has no database {self.database!r}",
                where=self.url,
                hint="the community edition has one, named neo4j",
            )
        if "TransactionTimedOut" in code and cypher is not None:
            return QueryError(
                f"the query took longer than {timeout or 0:g} s",
                hint="narrow it, or raise the time limit",
            )
        if code.startswith("Neo.ClientError.Statement") and cypher is not None:
            place = re.search(r"\(offset: (\d+)\)", error.message or "")
            return QueryError(message, position=None if place is None else int(place[1]))
        return StoreError(
            f"Neo4j says: {message or code}", where=self.url, retryable=error.is_retryable()
        )


def parse_url(url: str) -> tuple[str, str | None]:
    """(URL for the driver, database or None) of ``scheme://host[:port][/database]``.

    Raises:
        InputError: it has credentials in it, which would end up in logs, or no host.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise InputError(
            "a store URL has no user name or password in it",
            where=f"{parts.scheme}://{parts.hostname}",
            hint="set NEO4J_USERNAME and NEO4J_PASSWORD",
        )
    if not parts.hostname:
        raise InputError("the URL names no host", where=url)
    path = parts.path.strip("/")
    if "/" in path:
        raise InputError("the URL names more than one database", where=url)
    return f"{parts.scheme}://{parts.netloc}", path or None


def _plain(value: Any) -> object:
    """Nodes and relationships as dicts, paths as lists, times as text."""
    import neo4j.graph

    if isinstance(value, neo4j.graph.Node):
        return {"_label": ":".join(sorted(value.labels)), **dict(sorted(value.items()))}
    if isinstance(value, neo4j.graph.Relationship):
        return {"_label": value.type, **dict(sorted(value.items()))}
    if isinstance(value, neo4j.graph.Path):
        return [_plain(node) for node in value.nodes]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.iso_format() if hasattr(value, "iso_format") else value
