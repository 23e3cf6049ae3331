"""Where a Neo4j store is: ``scheme://host[:port][/database]``."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from graphstore.errors import InputError

SCHEMES = tuple(
    f"{scheme}{security}" for scheme in ("neo4j", "bolt") for security in ("", "+s", "+ssc")
)
"""``neo4j`` asks the server which member of a cluster to use, ``bolt`` speaks to one.

``+s`` is TLS with a certificate some authority vouches for, ``+ssc`` TLS with any.
"""
DEFAULT_PORT = 7687


@dataclass(frozen=True, slots=True)
class Address:
    """A database of a server; ``database`` None is the server's default one."""

    scheme: str
    host: str
    port: int
    database: str | None = None

    @property
    def server(self) -> str:
        """The URL without the database."""
        return f"{self.scheme}://{self.place}"

    @property
    def place(self) -> str:
        """``host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.server}/{self.database}" if self.database else self.server


def parse_address(url: str) -> Address:
    """The address in a store URL.

    Raises:
        InputError: another scheme, no host, a wrong port, or credentials in the URL, which
            would end up in logs. The message has no part of those.
    """
    scheme, _, rest = url.partition("://")
    if "@" in rest:
        raise InputError(
            "a store URL has no user name or password in it",
            where=f"{scheme}://{rest.rpartition('@')[2]}",
            hint="set NEO4J_USERNAME and NEO4J_PASSWORD, or use the file of docs/how-to/teams.md",
        )
    if scheme not in SCHEMES:
        raise InputError(f"no Neo4j at {scheme}://", hint=f"known: {', '.join(SCHEMES)}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(
            f"not a usable URL: {error}", where=url, hint=f"like {scheme}://host:{DEFAULT_PORT}"
        ) from error
    if not parts.hostname:
        raise InputError("the URL names no host", where=url)
    if parts.query or parts.fragment:
        raise InputError("a store URL ends with the database", where=url)
    database = parts.path.strip("/")
    if "/" in database:
        raise InputError("the URL names more than one database", where=url)
    return Address(scheme, parts.hostname, port or DEFAULT_PORT, database or None)
