"""A real server on a real socket, in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from divergraph.server.running import server_of
from divergraph.server.settings import ServerSettings
from graphstore.open_store import open_store


@contextmanager
def served(
    settings: ServerSettings, token: str | None = None, port: int = 0
) -> Iterator[httpx.Client]:
    """A client of a server with these *settings*, at *port* of 127.0.0.1, or any that is free."""
    server = server_of(settings, open_store(settings.store))
    with socket.create_server(("127.0.0.1", port)) as place:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
            yield client
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
