"""Folders of tensor pairs compared by Divergraph and by its peers, side by side.

    python benchmarks/diff/peers.py [--large 200] [--tiny 10000] [--huge 2] [--rounds 2] [--write]

Makes the pairs in a temporary folder, installs the peers in an environment of their own
below it (msaccucmp out of ``mindstudio-probe``, Polygraphy), and runs each tool in turn on
the same values, files in the page cache. Prints wall time, CPU time and the peak memory of
the whole process tree over the start of a bare interpreter with numpy; ``--write`` puts the
table between the markers in ``benchmarks/README.md``. A peer that cannot be installed is
left out and said so. msprobe, whose dependencies take 7 GB, is given as measured once
elsewhere and marked.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensor_files import ELEMENTS, Case, make_case, make_huge

HERE = Path(__file__).resolve().parent
README = HERE.parent / "README.md"
BEGIN, END = "<!-- diff/peers.py begin -->", "<!-- diff/peers.py end -->"
PEERS = ("mindstudio-probe==26.2.0", "polygraphy==0.53.6")
OURS = "divergraph diff"
NEEDED = ("numpy", "pandas", "protobuf", "onnx", "psutil", "tqdm")


@dataclass(frozen=True)
class Result:
    """What one run took, in seconds and MiB over a bare interpreter."""

    wall: float
    cpu: float
    memory: float


NOTHING = Result(0, 0, 0)


def main() -> None:
    """Measure and print, write if asked."""
    options = _options()
    loads = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="diff_peers_", dir=options.folder) as name:
        folder = Path(name)
        python, missing = _environment(folder, options.environment)
        cases = [
            make_case(folder / "large", options.large, ELEMENTS["large"]),
            make_case(folder / "tiny", options.tiny, ELEMENTS["tiny"]),
        ]
        rows = [row for case in cases for row in _rows(case, python, options.rounds)]
        if options.huge:
            rows.append(_huge_row(folder / "huge", options.huge))
    load = f"{loads[0]:.1f} before and {os.getloadavg()[0]:.1f} after"
    said = f"Best of {options.rounds} runs, of tools that take over a minute one; load {load}, on "
    table = "\n".join([*_head(), *rows, "", f"{said}{os.cpu_count()} cores."])
    print(table)
    for line in missing:
        print(line)
    if options.write:
        _write(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--large", type=int, default=200, help="pairs of 1,000,000 float32")
    parser.add_argument("--tiny", type=int, default=10_000, help="pairs of 1,024 float32")
    parser.add_argument("--huge", type=float, default=2.0, help="GB of one more tensor; 0: none")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each tool, best counts")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--environment", type=Path, help="an environment made before")
    parser.add_argument("--write", action="store_true", help="write the table to README.md")
    return parser.parse_args()


def _environment(folder: Path, given: Path | None) -> tuple[Path, list[str]]:
    """The interpreter of the peers' environment, and what could not be installed."""
    home = given or folder / "peers"
    python = home / "bin" / "python"
    if python.exists():
        return python, []
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    missing = []
    for arguments in (NEEDED, *(("--no-deps", peer) for peer in PEERS)):
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            missing.append(f"could not install {arguments[-1]}: {done.stderr.strip()[-200:]}")
    return python, missing


def _rows(case: Case, python: Path, rounds: int) -> list[str]:
    tools: dict[str, Callable[[], list[str]]] = {
        OURS: lambda: _ours(case),
        f"{OURS} --json": lambda: [*_ours(case), "--json"],
        "msaccucmp compare": lambda: _msaccucmp(case, python),
        "polygraphy run (simple)": lambda: _polygraphy(case, python),
    }
    bare = _bare_memory()
    best: dict[str, Result] = {}
    for number in range(rounds):
        for tool, command in tools.items():
            # The slow ones once: their time does not depend on what else is in the cache.
            if number and not tool.startswith(OURS) and best.get(tool, NOTHING).wall > 60:
                continue
            arguments = command()
            if not arguments and not number:
                print(f"{case.title}, {tool}: not installed, left out", flush=True)
            result = _run(arguments, case.folder, bare) if arguments else None
            print(f"{case.title}, {tool}: {result}", file=sys.stderr, flush=True)
            if result is not None and (tool not in best or result.wall < best[tool].wall):
                best[tool] = result
    ours = best[OURS].wall
    rows = [
        f"| {case.title} | {tool} | {result.wall:.2f} | {result.cpu:.2f} | "
        f"{result.wall / case.pairs * 1e6:,.0f} | {result.wall / ours:.1f} | {result.memory:.0f} |"
        for tool, result in best.items()
    ]
    if case.pairs == 200 and case.elements == ELEMENTS["large"]:
        rows.append(
            f"| {case.title} | msprobe compare (measured elsewhere) "
            "| 41.6 | 30.8 | 208,000 | | 780 |"
        )
    return rows


def _huge_row(folder: Path, size: float) -> str:
    """One pair of files, with the look at every element; the peers would need it in memory."""
    device, golden = make_huge(folder, size)
    tool = Path(sys.executable).with_name("divergraph")
    result = _run([str(tool), "diff", str(device), str(golden)], folder, _bare_memory())
    found = result or NOTHING
    return (
        f"| 1 x {size:g} GB float32 | {OURS} A.npy B.npy | {found.wall:.2f} | {found.cpu:.2f} | "
        f"{found.wall * 1e6:,.0f} | | {found.memory:.0f} |"
    )


def _head() -> list[str]:
    return [
        "| pairs | tool | wall s | CPU s | µs a pair | wall, to ours | peak MiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]


def _ours(case: Case) -> list[str]:
    tool = Path(sys.executable).with_name("divergraph")
    return [str(tool), "diff", str(case.device), str(case.golden)]


def _msaccucmp(case: Case, python: Path) -> list[str]:
    found = list(python.parents[1].glob("lib/python*/site-packages/msprobe/msaccucmp/msaccucmp.py"))
    if not found:
        return []
    out = case.folder / "msaccucmp_out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    return [
        *(str(python), str(found[0]), "compare", "-m", str(case.nano), "-g", str(case.golden)),
        *("-f", str(case.fusion), "-out", str(out)),
    ]


def _polygraphy(case: Case, python: Path) -> list[str]:
    tool = python.with_name("polygraphy")
    if not tool.exists():
        return []
    results = case.polygraphy(python)
    if results is None:
        return []
    return [str(tool), "run", "--load-outputs", *map(str, results)]


def _run(command: list[str], folder: Path, bare: float) -> Result | None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    log = folder / "log.txt"
    with log.open("wb") as sink:
        child = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, cwd=folder)
        peak = _Watcher(child.pid)
        code = child.wait()
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    memory = peak.stopped()
    # 1 says that tensors differ, which is no failure here.
    if code not in (0, 1):
        print(f"{Path(command[0]).name} failed with {code}:", log.read_text()[-500:])
        return None
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(wall, cpu, memory - bare)


class _Watcher:
    """Peak memory of a process and its children: their proportional set sizes together."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stopped(self) -> float:
        """The peak in MiB."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            self._peak = max(self._peak, sum(map(_pss, _family(self._pid))))


def _family(pid: int) -> list[int]:
    found, at = [pid], 0
    while at < len(found):
        for task in Path(f"/proc/{found[at]}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
        at += 1
    return found


def _pss(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _bare_memory() -> float:
    """MiB of an interpreter with numpy."""
    code = "import numpy; print(open('/proc/self/smaps_rollup').read())"
    sizes = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        sizes.append(
            sum(
                int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Pss:")
            )
        )
    return statistics.median(sizes) / 1024


def _write(table: str) -> None:
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    README.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
