"""Dump training steps of jobs of several ranks with msprobe, right ones and faulty ones.

    python benchmarks/torch_jobs/parallel/make.py FOLDER [--kinds experts ring] [--seed 41]
        [--count 4] [--healthy]

Needs torch (with gloo) and mindstudio-probe. Of each kind (``setting.py``): ``KIND-golden`` of one
rank and ``KIND-golden_ranks`` of as many in float32, ``KIND-healthy`` and one for each fault
(``sites.txt``) in bfloat16. The seed decides sizes and to how many experts a word goes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
import torch
from torch import distributed

from benchmarks.torch_jobs.parallel.faults import faults, put_in
from benchmarks.torch_jobs.parallel.setting import KINDS, Setting
from benchmarks.torch_jobs.parallel.step import Step

_GOLDEN = "golden"


def record(folder: Path, setting: Setting, dtype: torch.dtype, port: int) -> None:
    """Be one rank of a job: run its step and dump it into *folder*."""
    torch.set_num_threads(1)
    if setting.count > 1:
        os.environ.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(setting.rank),
            WORLD_SIZE=str(setting.count), LOCAL_RANK=str(setting.rank),
        )  # fmt: skip
        distributed.init_process_group("gloo", rank=setting.rank, world_size=setting.count)
    put_in(setting)
    step = Step(setting, dtype)
    from msprobe.pytorch import PrecisionDebugger  # it wraps what is there when it is loaded

    debugger = PrecisionDebugger(config_path=str(folder / "config.json"))
    debugger.start(model=step.model)
    print(setting.kind, setting.fault, "rank", setting.rank, "loss", step.run(), flush=True)
    debugger.stop()
    debugger.step()
    if setting.count > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def configure(folder: Path) -> None:
    """Write msprobe's configuration into *folder*."""
    folder.mkdir(parents=True)
    config = {
        "task": "tensor", "dump_path": str(folder), "rank": [], "step": [], "level": "mix",
        "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def jobs(kind: str, count: int, *, healthy: bool) -> Iterator[tuple[str, int, str]]:
    """The folder's name, the ranks and the fault of each job of a *kind*."""
    count *= 2 if kind == "tensor" else 1  # a pair for each part of the data
    yield f"{kind}-{_GOLDEN}", 1, "none"
    yield f"{kind}-{_GOLDEN}_ranks", count, "none"
    yield f"{kind}-healthy", count, "none"
    for fault in () if healthy else faults(kind, count):
        yield f"{kind}-{fault}", count, fault


def dump(folder: Path, kind: str, count: int, seed: int, fault: str) -> None:
    """Run a job, a process a rank. In bfloat16 unless it is golden."""
    configure(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dtype = torch.float32 if f"-{_GOLDEN}" in folder.name else torch.bfloat16
    fork = multiprocessing.get_context("fork")  # PyTorch is loaded once
    settings = [Setting(kind, count, rank, seed, fault) for rank in range(count)]
    ranks = [fork.Process(target=record, args=(folder, each, dtype, port)) for each in settings]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode for rank in ranks):
        raise SystemExit(f"{folder}: a rank failed")


def main() -> None:
    """Dump the jobs that are not there yet."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options.add_argument("--seed", type=int, default=41)
    options.add_argument("--count", type=int, default=2)
    options.add_argument("--healthy", action="store_true", help="without faulty jobs")
    options.add_argument("--faults", nargs="*", help="only these")
    chosen = options.parse_args()
    for kind in chosen.kinds:
        for name, count, fault in jobs(kind, chosen.count, healthy=chosen.healthy):
            folder = chosen.folder / name
            is_wanted = fault == "none" or not chosen.faults or fault in chosen.faults
            if is_wanted and not folder.exists():
                dump(folder, kind, count, chosen.seed, fault)


if __name__ == "__main__":
    main()
