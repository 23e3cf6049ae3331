"""What the process that runs models does first: give up what it does not need."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from divergraph.execute.child.confine import confine
from divergraph.execute.child.limits import ModelLimits

_LOOK_SECONDS = 0.5


def main() -> None:
    """Run models until standard input ends."""
    request = json.loads(sys.argv[1])
    folder, limits = Path(request["folder"]), ModelLimits(request["memory"], request["seconds"])
    gaps = confine([Path(path) for path in request["readable"]], folder)
    threading.Thread(target=_end_with, args=(request["parent"], folder), daemon=True).start()
    # Nothing but answers may reach the parent, whatever libraries print or read.
    questions, answers = (os.dup(stream.fileno()) for stream in (sys.stdin, sys.stdout))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdin, sys.stdout):
        os.dup2(nothing, stream.fileno())
    # Only now: numpy has threads, and those do not give up anything any more.
    from divergraph.execute.child.serve import Server

    Server(questions, answers, limits, gaps).serve()


def _end_with(parent: int, folder: Path) -> None:
    """A parent that was killed cannot end us: a model that computes would go on."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
