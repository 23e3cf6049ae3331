"""A program that runs commands as on Windows: without what only POSIX systems have.

    python other_system.py '[["runs"], ["diff", "a.npy", "b.npy"]]'

What we use of others is imported before; ours is imported when all that is hidden.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

OTHERS = (
    "asyncio.subprocess click concurrent.futures ctypes ladybug multiprocessing.util neo4j "
    "networkx numpy onnx onnxruntime platformdirs pyarrow.compute rich.progress tempfile uuid"
)
MODULES = "fcntl grp posix pty pwd resource termios tty".split()
OF_OS = (
    "fchmod fork geteuid getgid getloadavg getpgid getuid killpg mkfifo nice pread preadv readv "
    "register_at_fork sched_getaffinity sched_setaffinity set_blocking setpgid setpriority setsid "
    "statvfs sysconf uname wait4 waitid WNOHANG O_CLOEXEC O_DIRECTORY O_NOFOLLOW"
)
OF_SIGNAL = "SIGALRM SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGWINCH SIGXCPU"


def hide() -> None:
    """From here on this process has what Windows has."""
    room = shutil.disk_usage("/")
    subprocess.signal = SimpleNamespace(**vars(signal))  # there it kills in another way
    sys.modules.update(dict.fromkeys(MODULES))
    for module, names in ((os, OF_OS), (signal, OF_SIGNAL), (select, "poll"), (time, "tzset")):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = "win32"
    del selectors.DefaultSelector
    shutil.disk_usage = lambda _path: room
    started = subprocess.Popen.__init__

    def start(self, *given, pass_fds=(), preexec_fn=None, **more):
        if pass_fds or preexec_fn:
            raise ValueError("pass_fds and preexec_fn are not supported on Windows platforms")
        started(self, *given, **more)

    subprocess.Popen.__init__ = start


def main() -> None:
    for name in OTHERS.split():
        importlib.import_module(name)
    hide()
    from divergraph.cli.main import run

    codes = [run(line) for line in json.loads(sys.argv[1])]
    sys.stderr.write(f"{json.dumps(codes)}\n")


if __name__ == "__main__":
    main()
