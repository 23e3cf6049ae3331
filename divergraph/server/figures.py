"""What a monitoring system reads of the server: counts and times, as Prometheus' text format."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BOUNDS = (0.005, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0)
MEDIA_TYPE = "text/plain; version=0.0.4"


class RequestFigures:
    """Counts the requests that go through to *app*, by address (not by what stands in it)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._below: Counter[tuple[str, float]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._count: Counter[str] = Counter()
        self._running = 0

    def counted(self, app: ASGIApp) -> ASGIApp:
        """*app*, its requests counted."""

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, status = time.perf_counter(), 500

            async def noting(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            self._running += 1
            try:
                await app(scope, receive, noting)
            finally:
                self._running -= 1
                self._note(scope, status, time.perf_counter() - began)

        return counting

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        with self._lock:
            self._requests[scope["method"], path, status] += 1
            self._seconds[path] += seconds
            self._count[path] += 1
            for bound in _BOUNDS:
                self._below[path, bound] += seconds <= bound

    def text(self) -> str:
        """All of it, in the text format."""
        with self._lock:
            lines = ["# TYPE divergraph_requests_total counter"]
            for (method, path, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",route="{path}",status="{status}"'
                lines.append(f"divergraph_requests_total{{{labels}}} {count}")
            lines += ["# TYPE divergraph_request_seconds histogram"]
            for path, count in sorted(self._count.items()):
                name = f'divergraph_request_seconds_bucket{{route="{path}",le='
                lines += [f'{name}"{bound:g}"}} {self._below[path, bound]}' for bound in _BOUNDS]
                lines += [
                    f'{name}"+Inf"}} {count}',
                    f'divergraph_request_seconds_sum{{route="{path}"}} {self._seconds[path]:.6f}',
                    f'divergraph_request_seconds_count{{route="{path}"}} {count}',
                ]
            lines += [
                "# TYPE divergraph_requests_running gauge",
                f"divergraph_requests_running {self._running}",
            ]
        return "\n".join(lines) + "\n"
