"""The process that serves."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable

import uvicorn

from divergraph.server.app import make_app
from divergraph.server.settings import ServerSettings
from divergraph.server.strict_protocol import strict_protocol
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.open_store import open_store

_GRACE_SECONDS = 10
_SWITCH_SECONDS = 0.0005
"""A tenth of Python's own: what is read and sent waits less for threads that answer."""
_IDLE_SECONDS = 30
_PATIENCE = 2.0
"""So many seconds a Neo4j that is away is asked again; longer, those who ask would take the turns
of all others."""


def serve(settings: ServerSettings, listening: Callable[[str], None]) -> None:
    """Serve until a signal ends it; *listening* is told the address once it can be asked.

    Raises:
        InputError: the address cannot be listened at, or the certificate cannot be read.
        StoreError: the store cannot be opened.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    place = _listener(settings)
    server = server_of(settings, open_store(settings.store, patience=_PATIENCE))
    _log_to_standard_error()
    host, port = place.getsockname()[:2]
    url_host = f"[{host}]" if ":" in host else host
    listening(f"{'http' if settings.certificate is None else 'https'}://{url_host}:{port}")
    server.run(sockets=[place])


def server_of(settings: ServerSettings, store: GraphStore) -> uvicorn.Server:
    """The server about *store*, which it closes at its end; it does not run yet.

    Raises:
        InputError: the certificate cannot be read.
    """
    config = uvicorn.Config(
        make_app(settings, store),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.behind_proxy,
        limit_concurrency=settings.limits.connections,
        http=strict_protocol(settings.limits),
        ws="none",
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.certificate,
        ssl_keyfile=None if settings.key is None else str(settings.key),
    )
    try:
        config.load()
    except OSError as error:
        message = f"the certificate cannot be used: {error}"
        raise InputError(message, where=str(settings.certificate)) from error
    return uvicorn.Server(config)


def _listener(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        hint = "--port 0 takes any that is free"
        raise InputError(f"cannot listen: {error.strerror}", where=where, hint=hint) from error


def _log_to_standard_error() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("divergraph.server")
    log.setLevel(logging.INFO)
    log.addHandler(handler)
