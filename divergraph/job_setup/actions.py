"""A training script started so that it dumps into a data folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from divergraph import tf_config
from divergraph.files.whole_files import whole_file
from divergraph.job_setup.steps import checked_steps
from graphstore.errors import InputError

_STOPPED = 128


class JobAction(StrEnum):
    """What a script is started for."""

    TF_DUMP = "tf_dump"
    NPU_DUMP = "npu_dump"
    NPU_OVERFLOW = "npu_overflow"


_ACTIONS = {
    JobAction.TF_DUMP: "tf_dump",
    JobAction.NPU_DUMP: "dump",
    JobAction.NPU_OVERFLOW: "overflow",
}


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """A command, what it is to do, and where its files go. ``steps`` are as ``0|5|10``;
    ``switch`` is a fusion switch file."""

    command: Sequence[str]
    action: JobAction
    data: Path
    steps: str = "0"
    switch: Path | None = None


def environment(job: ScriptJob) -> dict[str, str]:
    """The variables the command gets beside those there are.

    Raises:
        InputError: the steps are none, or there is no switch file.
    """
    action = _ACTIONS[job.action]
    data = job.data.absolute()
    variables = {
        tf_config.ACTION: action,
        tf_config.DATA: str(data),
        tf_config.STEPS: checked_steps(job.steps),
        "PYTHONHASHSEED": str(tf_config.SEED),
    }
    if job.action is not JobAction.TF_DUMP:
        variables |= tf_config.GRAPH_FLAGS
        variables[tf_config.GRAPH_PATH] = str(data / "npu" / "debug_0" / "graph")
        variables[tf_config.PRECISION_TOOL_FLAGS[action]] = "True"
    if job.switch is not None:
        if not job.switch.is_file():
            raise InputError("no such fusion switch file", where=str(job.switch))
        variables[tf_config.SWITCH_FILE] = str(job.switch.absolute())
    return variables


def start(job: ScriptJob, *, says_on: int | None = None) -> int:
    """Run the command to its end and return its exit code; it prints to the open file *says_on*, or
    here.

    ``import precision_tool.tf_config`` finds :mod:`divergraph.tf_config` in a script beside which
    there is no precision_tool. One argument alone is a line for the shell, as there.

    Raises:
        InputError: there is no such command, or the data folder cannot be made.
    """
    added = environment(job)
    modules = _modules(job)
    before = {name: value for name, value in os.environ.items() if not _is_ours(name)}
    path = os.pathsep.join(filter(None, (before.get("PYTHONPATH"), str(modules))))
    is_line = len(job.command) == 1
    sys.stdout.flush()
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            job.command[0] if is_line else list(job.command),
            shell=is_line,
            stdout=says_on,
            env={**before, **added, "PYTHONPATH": path},
            check=False,
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"the command cannot be started: {why}", where=job.command[0]) from error
    return done.returncode


def _is_ours(name: str) -> bool:
    ours = (tf_config.ACTION, tf_config.DATA, tf_config.STEPS, tf_config.SWITCH_FILE)
    return name in ours or name in tf_config.PRECISION_TOOL_FLAGS.values()


def end_text(code: int) -> str:
    """How a command ended, in words; empty if all is well."""
    if code == 0:
        return ""
    killed = -code if code < 0 else code - _STOPPED
    if code < 0 or killed in list(signal.Signals):
        return f"the command was ended by {signal.Signals(killed).name}"
    return f"the command ended with exit code {code}"


def _modules(job: ScriptJob) -> Path:
    """A folder in which Python finds ``precision_tool.tf_config``."""
    folder = job.data.absolute() / "temp" / "python"
    package = folder / "precision_tool"
    try:
        package.mkdir(parents=True, exist_ok=True)
        for parts in ("npu/debug_0/graph", "npu/debug_0/dump", "overflow/dump", "tf/tf_debug"):
            (job.data / parts).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"the data folder cannot be made: {why}", where=str(job.data)) from error
    for name, text in (("__init__.py", ""), ("tf_config.py", module_text())):
        with whole_file(package / name) as place:
            place.write_text(text, encoding="utf-8")
    return folder


def module_text() -> str:
    """The file ``tf_config.py``, which stands alone."""
    return Path(tf_config.__file__).read_text(encoding="utf-8")
