"""The files in the folder of a job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REQUEST, PROCESS, PROGRESS = "request.json", "process.json", "progress.jsonl"
LOCK, LOG, ENDED, STOPPED = "lock", "log", "ended.json", "stopped"
ANSWER, PART = "answer.json", "part"
"""The lock is held as long as a process of the job lives; ``stopped`` is there if the user
asked for its end. The answer is what a command with ``--json`` prints; below
``part`` lies what it wrote for those who fetch it."""


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write *value* whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one if there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
