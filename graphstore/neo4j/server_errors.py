"""What a Neo4j server or the way to it says, as one sentence with what to do next."""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphstore.errors import DivergraphError, InputError, QueryError, StoreError
from graphstore.neo4j.address import parse_address
from graphstore.neo4j.local_server.jars import OLDEST

if TYPE_CHECKING:
    import neo4j

_HOPELESS = ("MemoryPoolOutOfMemory", "OutOfMemory", "ForbiddenOnReadOnlyDatabase")
"""Parts of codes the driver would try again, although the answer will be the same."""
_OF_THE_TEXT = ("Neo.ClientError.Statement", "Neo.ClientError.Procedure")
"""Codes of errors in what was asked, such as a procedure that does not exist."""
_SECURITY = r"\.Security\."
_TROUBLES = (
    (
        "AuthenticationRateLimit$",
        "Neo4j has locked this user for a while: too many wrong passwords",
        "wait 5 s, then give the right one",
        True,
    ),
    (
        r"\.Security\.CredentialsExpired",
        "Neo4j wants this user's first password changed",
        "ALTER CURRENT USER SET PASSWORD FROM '...' TO '...', in cypher-shell",
        False,
    ),
    (r"\.Security\.Forbidden", "Neo4j does not allow this user to do that", "", False),
    (
        _SECURITY,
        "Neo4j refuses the user name or password{source}",
        "set NEO4J_USERNAME and NEO4J_PASSWORD",
        False,
    ),
    (
        "DatabaseNotFound$",
        "Neo4j has no database {database!r}",
        "the community edition has one, named neo4j",
        False,
    ),
    (
        "DatabaseUnavailable$",
        "Neo4j's database is not available: it starts, stops, or has failed",
        "try again in a moment; the server's log says more",
        True,
    ),
    ("ReadOnly", "the database is read-only", "its administrator made it so", False),
)
"""(part of the server's code, what it means, what to do, whether trying again may help); the
first that fits counts."""
_OLDEST = ".".join(map(str, OLDEST))
_MADE_OR_NOT = "it may be made or not"
_LOOK_FIRST = "look with `divergraph runs`, then do it again or not"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What was asked of whom; ``source`` says where the password is from."""

    url: str
    database: str | None
    source: str
    cypher: str | None = None
    timeout: float | None = None


def check_server_version(agent: str, url: str) -> None:
    """Refuse servers older than the store can use, by what they call themselves.

    *agent* is like ``Neo4j/5.26.30``, a hosted one ``Neo4j/5.27-aura``. What has no number
    is let through: its answers will say more.

    Raises:
        StoreError: it is too old.
    """
    match = re.match(r"Neo4j/v?(\d+)\.(\d+)", agent)
    if match is not None and (int(match[1]), int(match[2])) < OLDEST:
        raise StoreError(
            f"the server is {agent.replace('/', ' ')}, which is too old",
            where=url,
            hint=f"Neo4j {_OLDEST} or newer is needed",
        )


def is_hopeless(error: neo4j.exceptions.Neo4jError) -> bool:
    """Whether trying again would bring the same answer."""
    return not error.is_retryable() or any(part in (error.code or "") for part in _HOPELESS)


def wire_error(error: neo4j.exceptions.DriverError, request: ServerRequest) -> DivergraphError:
    """Our error for a server that is not reached, or lost."""
    import neo4j

    if isinstance(error, neo4j.exceptions.IncompleteCommit) and request.cypher is None:
        return StoreError(
            f"the connection broke while Neo4j confirmed a change: {_MADE_OR_NOT}",
            where=request.url,
            hint=_LOOK_FIRST,
        )
    chain = list(_chain(error))
    address = parse_address(request.url)
    for cause in chain:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return StoreError(
                f"the server's certificate is not trusted: {cause.verify_message.rstrip('.')}",
                where=request.url,
                hint=f"name its authority's file in SSL_CERT_FILE, or trust any certificate with "
                f"{address.scheme.partition('+')[0]}+ssc://",
            )
    for cause in chain:
        if isinstance(cause, socket.gaierror):
            return StoreError(
                f"no host is named {address.host!r}", where=request.url, hint="check the URL"
            )
        if isinstance(cause, ssl.SSLError):
            return StoreError(
                "the server ends the TLS handshake: it may speak none on this port",
                where=request.url,
                hint=f"{address.scheme.partition('+')[0]}:// connects without TLS, in a network "
                "you trust",
                retryable=True,
            )
    message = " ".join(str(cause) for cause in chain)
    if isinstance(error, neo4j.exceptions.UnsupportedServerProduct) or "Bolt version" in message:
        return StoreError(
            "this is no Neo4j server this program can speak to",
            where=request.url,
            hint=f"Neo4j {_OLDEST} or newer is needed",
        )
    return _lost(message, request, chain)


def no_pulse(request: ServerRequest, *, changes: bool) -> StoreError:
    """Our error for a server that takes connections and says nothing; *changes*: to a change."""
    what = "Neo4j does not answer: it hangs, or the way to it does"
    if changes:
        what, hint = f"{what}; the change was asked for, {_MADE_OR_NOT}", _LOOK_FIRST
    else:
        hint = "its log may say why; it is asked again as soon as it answers"
    return StoreError(what, where=request.url, hint=hint, retryable=True)


def _lost(message: str, request: ServerRequest, chain: list[BaseException]) -> StoreError:
    address = parse_address(request.url)
    if any(isinstance(cause, ConnectionRefusedError) for cause in chain):
        what, hint = "nothing listens there", "is the server running there?"
        if _is_ours(request):
            hint = "`divergraph neo4j start` starts your server"
    elif (
        "handshake" in message and "+s" not in address.scheme and "deadline" not in message.lower()
    ):
        what = "what listens there ends the connection at once"
        hint = f"a server that wants TLS does: try {address.scheme}+s://, or is it no Neo4j?"
    elif "handshake" in message or "imed out" in message:
        what, hint = "there is no answer", "is it Neo4j's Bolt port? is a firewall in between?"
    else:
        what, hint = "the connection broke", "is the server running there?"
        if _is_ours(request):
            hint = "`divergraph neo4j status` says how your server is"
    return StoreError(f"cannot reach Neo4j: {what}", where=request.url, hint=hint, retryable=True)


def server_error(error: neo4j.exceptions.Neo4jError, request: ServerRequest) -> DivergraphError:
    """Our error for what the server refused or could not do."""
    code, message = error.code or "", (error.message or "").partition("\n")[0]
    trouble = _known_trouble(code, request)
    if trouble is not None:
        return trouble
    if "TransactionTimedOut" in code and request.cypher is not None:
        limit = f"{request.timeout:g} s" if request.timeout else "the server's time limit"
        return QueryError(
            f"the query took longer than {limit}", hint="narrow it, or raise the time limit"
        )
    if code.startswith(_OF_THE_TEXT) and request.cypher is not None:
        place = re.search(r"\(offset: (\d+)\)", error.message or "")
        return QueryError(message, position=None if place is None else int(place[1]))
    return StoreError(
        f"Neo4j says: {message or code}", where=request.url, retryable=error.is_retryable()
    )


def _known_trouble(code: str, request: ServerRequest) -> DivergraphError | None:
    for pattern, what, hint, retryable in _TROUBLES:
        if re.search(pattern, code):
            message = what.format(database=request.database, source=_from(request))
            in_file = pattern == _SECURITY and os.sep in request.source
            todo = f"correct it there, or {hint}" if in_file else hint
            return StoreError(message, where=request.url, hint=todo, retryable=retryable)
    if "OutOfMemory" in code and request.cypher is not None:
        return QueryError(
            "the query needs more memory than the server allows",
            hint=f"narrow it; the server's limit is db.memory.transaction.max{_more(request)}",
        )
    if "OutOfMemory" in code:
        return StoreError(
            "writing needs more memory than the server allows",
            where=request.url,
            hint="raise its heap, and db.memory.transaction.max",
        )
    return None


def bad_driver_url(error: Exception, url: str) -> InputError:
    """Our error for a URL or setting the driver does not take."""
    return InputError(f"not a usable Neo4j URL: {error}", where=url)


def _from(request: ServerRequest) -> str:
    return f", from {request.source}" if request.source else ""


def _more(request: ServerRequest) -> str:
    ours = ", half of its memory: `divergraph neo4j start --heap 4g` after a stop gives more"
    return ours if _is_ours(request) else ""


def _is_ours(request: ServerRequest) -> bool:
    from graphstore.neo4j.local_server.managed import is_managed

    return is_managed(parse_address(request.url))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and all that led to it."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for part in error.exceptions:
                yield from _chain(part)
        error = error.__cause__ or error.__context__
