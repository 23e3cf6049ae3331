"""``divergraph serve`` as a process of its own, to be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import httpx

PATIENCE = 240.0
OVER = ("ended", "stopped", "lost")


class ServerProcess:
    """A server for one's own machine, with its jobs' folder and roots below *folder*."""

    def __init__(self, folder: Path, *options: str, store: str = "") -> None:
        self.store = store or str(folder / "store")
        self.state = folder / "state"
        self._environment = {
            **os.environ,
            "DIVERGRAPH_CACHE": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "states"),
        }
        self._words = (
            *(sys.executable, "-m", "divergraph", "serve", "--port", "0", "--json"),
            *("--store", self.store, "--state", str(self.state), *options),
        )
        self._log = (folder / "server.log").open("ab")
        self.start()

    def start(self) -> None:
        """Begin, or begin again; it answers when this returns."""
        self.process = subprocess.Popen(
            self._words,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        said = b""
        while not said.endswith(b"}\n"):
            line = self.process.stdout.readline()
            assert line, "the server ended"
            said += line
        self.client = httpx.Client(
            base_url=json.loads(said)["url"], trust_env=False, timeout=PATIENCE
        )

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it at once; its jobs' processes go on."""
        self.client.close()
        self.process.send_signal(number)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, command: str, options: Mapping[str, object]) -> str:
        """Ask for a job; its id."""
        asked = self.client.post("/v1/jobs", json={"command": command, "options": options})
        assert asked.status_code == 202, asked.text
        return str(asked.json()["id"])

    def job(self, name: str) -> dict[str, object]:
        """A job as the server tells it."""
        return dict(self.client.get(f"/v1/jobs/{name}").raise_for_status().json())

    def children(self, name: str) -> list[dict[str, object]]:
        """Its children."""
        told = self.client.get("/v1/jobs", params={"parent": name}).raise_for_status()
        return list(told.json()["jobs"])

    def until_over(self, name: str) -> dict[str, object]:
        """The job when it is over."""
        end = time.monotonic() + PATIENCE
        while (found := self.job(name))["state"] not in OVER:
            assert time.monotonic() < end, found
            time.sleep(0.1)
        return found

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop what is not over, then the server."""
        if self.process.poll() is None:
            for job in self.client.get("/v1/jobs").json()["jobs"]:
                if job["state"] not in OVER:
                    self.client.delete(f"/v1/jobs/{job['id']}")
                    self.until_over(job["id"])
            self.kill(signal.SIGTERM)
        self._log.close()
