"""How long a server takes for a page of ops while many ask at once.

    python benchmarks/server/load.py STORE --clients 200 --rate 200 --seconds 20

Starts ``divergraph serve`` on the store, has so many clients ask for pages of its first run, in
several orders and through several filters, at a fixed rate altogether, and prints how long answers
took, from the moment they were due, and what the server used. With ``--others`` each page begins
behind another op, so that no answer was given before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

from divergraph.api.demo import demo_data

_PAGES = (
    "",
    "&sort=rel",
    "&where=state:origin",
    "&sort=-cos&where=cos<0.9",
    "&where=type:Conv*",
)
_KNOWN = 5000


def main() -> None:
    """Start a server, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--others", action="store_true", help="no page twice")
    parser.add_argument("--comparing", action="store_true", help="two comparisons run meanwhile")
    parser.add_argument("--every-run", action="store_true", help="pages of all runs of the store")
    given = parser.parse_args()
    command = [sys.executable, "-m", "divergraph", "serve", "--port", "0", "--json"]
    with (
        tempfile.TemporaryDirectory() as state,
        subprocess.Popen(
            [*command, "--store", str(given.store), "--state", state],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            line = server.stdout.readline()
            if not line:
                sys.exit("the server ended: start it by hand to see why")
            said += line
        try:
            asyncio.run(_ask(urlsplit(json.loads(said)["url"]).port or 0, given, server.pid))
        finally:
            server.terminate()


class _Client:
    """One connection that asks one question after the other, with little work of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def get(self, path: str) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        return await self._ask(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")

    async def post(self, path: str, told: object) -> tuple[int, bytes]:
        """The same where *told* is sent, as JSON."""
        body = json.dumps(told)
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
        return await self._ask(f"{head}\r\ncontent-type: application/json\r\n\r\n{body}")

    async def _ask(self, text: str) -> tuple[int, bytes]:
        async with self._turn:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(text.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            body = await reader.readexactly(int(lines[b"content-length"]))
            return int(head.split(b" ", 2)[1]), body


async def _ask(port: int, given: argparse.Namespace, pid: int) -> None:
    clients = [_Client(port) for _ in range(given.clients)]
    runs = [each["run"] for each in json.loads((await clients[0].get("/v1/runs"))[1])["runs"]]
    run = runs[0]
    began = time.perf_counter()
    first = json.loads((await clients[0].get(f"/v1/runs/{run}/ops?limit=100"))[1])
    print(f"first page, nothing read yet: {time.perf_counter() - began:.2f} s")
    pages = [*_PAGES, f"&after={quote(first['ops'][-1]['op'])}"]
    if given.others:
        known = json.loads((await clients[0].get(f"/v1/runs/{run}/ops?limit={_KNOWN}"))[1])["ops"]
        pages = [f"{page}&after={quote(op['op'])}" for page in ("", "&sort=rel") for op in known]
    before, start = _cpu_seconds(pid), time.perf_counter()
    taken: list[float] = []
    failed = 0
    count = int(given.rate * given.seconds)

    async def one(number: int) -> None:
        nonlocal failed
        due = start + number / given.rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        page, asked = random.choice(pages), random.choice(runs) if given.every_run else run
        address = f"/v1/runs/{asked}/ops?limit=100{page}"
        status, _ = await clients[number % given.clients].get(address)
        failed += status != 200
        taken.append(time.perf_counter() - due)

    over = asyncio.Event()
    beside = asyncio.create_task(_compare_on(_Client(port), over)) if given.comparing else None
    await asyncio.gather(*map(one, range(count)))
    wall = time.perf_counter() - start
    over.set()
    taken.sort()
    parts = (("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("worst", 1.0))
    shown = (f"{name} {1000 * taken[int(part * (count - 1))]:.0f} ms" for name, part in parts)
    print(f"{count} answers, {failed} failed, {count / wall:.0f} a second: {', '.join(shown)}")
    used = (_cpu_seconds(pid) - before) / count * 1000
    print(f"server: {used:.2f} CPU ms an answer, {_memory(pid)} MiB")
    if beside is not None:
        print(f"{await beside} comparisons ended meanwhile")


async def _compare_on(client: _Client, over: asyncio.Event) -> int:
    """Have two comparisons of the demo run again and again, until it is *over*; how many ended."""
    data = demo_data()
    options = {"golden": data.golden, "golden-dump": data.golden_dump, "replace": True}
    options |= {"device": data.device, "device-dump": data.device_dump}
    texts = {name: each if each is True else str(each) for name, each in options.items()}
    ended = 0
    while not over.is_set():
        jobs = []
        for number in (1, 2):
            asked = {"command": "compare", "options": {**texts, "run": f"beside-{number}"}}
            status, told = await client.post("/v1/jobs", asked)
            assert status == 202, told
            jobs.append(json.loads(told)["id"])
        for job in jobs:
            while json.loads((await client.get(f"/v1/jobs/{job}"))[1])["ended"] is None:
                await asyncio.sleep(0.2)
            ended += not over.is_set()
    return ended


def _cpu_seconds(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / 100


def _memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024


if __name__ == "__main__":
    main()
