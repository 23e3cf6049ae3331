"""``--store http://...`` at a server that is not ours: one sentence, whatever it answers."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from graphstore.errors import StoreError
from graphstore.open_store import open_store
from graphstore.remote import connection
from graphstore.remote.wire import SERVER_HEADER

OURS = {SERVER_HEADER: "1", "Content-Type": "application/json"}


@contextmanager
def answering(status: int, headers: dict[str, str], body: bytes) -> Iterator[str]:
    """The address of a server that answers everything so."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (302, {"Location": "https://elsewhere/"}, b"", "sends elsewhere"),
        (200, {"Content-Type": "text/html"}, b"<h1>Welcome</h1>", "no Divergraph server"),
        (200, {"Content-Type": "application/json"}, b'{"runs": []}', "no Divergraph server"),
        (200, OURS, b"<h1>", "cannot be read"),
        (200, OURS, b"[1, 2]", "cannot be read"),
        (200, OURS, b'{"graphs": []}', "cannot be read"),
        (200, OURS, b'{"runs": [{"no": "run"}]}', "cannot be read"),
        (200, OURS, b'{"runs": ["{}"]}', "cannot be read"),
        (200, {**OURS, "Content-Encoding": "gzip"}, b"not packed", "is cut"),
        (200, {**OURS, "Content-Encoding": "gzip"}, gzip.compress(b"{}", mtime=0)[:-9], "is cut"),
        (404, {"Content-Type": "text/html"}, b"<h1>", "no Divergraph server"),
        (500, {"Content-Type": "text/html"}, b"<h1>", "cannot answer"),
    ],
)
def test_one_sentence(status: int, headers: dict[str, str], body: bytes, said: str) -> None:
    with (
        answering(status, headers, body) as url,
        open_store(url) as store,
        pytest.raises(StoreError, match=said),
    ):
        store.runs()


def test_its_connection_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    with answering(200, {"Content-Type": "text/html"}, b"<h1>") as url, open_store(url) as store:
        with pytest.raises(StoreError) as raised:
            store.runs()
        raised.value.add_note("an error that is kept in a ring, as a debugger may")
        ring: list[object] = [raised]
        ring.append(ring)
        del raised, ring
        gc.collect()
    assert not recwarn.list


def test_a_few_bytes_that_become_many_are_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_MOST_BYTES", 1 << 20)
    bomb = gzip.compress(json.dumps({"runs": ["x" * (1 << 22)]}).encode())
    with (
        answering(200, {**OURS, "Content-Encoding": "gzip"}, bomb) as url,
        open_store(url) as store,
        pytest.raises(StoreError, match="larger than 1 MiB"),
    ):
        store.runs()
