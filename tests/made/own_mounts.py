"""Processes with mounts of their own, for full and read-only disks."""

from __future__ import annotations

import os
import subprocess

import pytest


def own_mounts() -> tuple[str, ...]:
    """A command prefix that gives a process mounts of its own; skips where it cannot."""
    command = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    try:
        able = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if able.returncode:
        pytest.skip("no mounts of one's own here")
    return tuple(command)
