"""Dump every tensor of one TensorFlow 1 step through tfdbg, without typing hundreds of commands.

    python tfdbg_driver.py -o golden -- python3 -u train.py --batch_size 2

This file stands alone: copy it to the machine that has TensorFlow 1 (Python 3.7 or newer,
`pip install pexpect`). The script has to start the debugger with its line interface:

    sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type="readline")
    hooks = [tf_debug.LocalCLIDebugHook(ui_type="readline")]        # with an Estimator

It types `run`, lists the tensors (`lt > file`), saves each (`pt NAME -n 0 -w FILE`) and names
the files `{op}.{output}.{timestamp}.npy`. Of a tensor computed several times (in a loop) the
first value is kept. Names that make no file name are numbered; `mapping.csv` says what they
stand for.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

PROMPT = r"(?:^|\n)tfdbg> "
MORE = r"--More--"
LONGEST = 200
"""Letters of a file name; the limit of file systems is 255 bytes, some tools add to it."""

_DUMPED = re.compile(r"^\[[\d.]+\]\s+\S+\s+\S+\s+(\S+)\s*$")
_TENSOR = re.compile(r"^[^\s:]+:\d+$")
_CUT = re.compile(r"(\.\.\.|\u2026)$")
_NODE = re.compile(r"^\s+(?:\[\S+\]\s+)?(\S+)\s*$")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MOST_OUTPUTS = 64


class TfdbgError(Exception):
    """Why the dump could not be made, as one sentence."""


def listed_tensors(listing: str) -> list[str]:
    """The tensors of what `lt` wrote, each once, in the order they were computed."""
    matches = (_DUMPED.match(line) for line in listing.splitlines())
    return list(dict.fromkeys(match.group(1) for match in matches if match))


def listed_nodes(listing: str) -> list[str]:
    """The nodes of what `ln` wrote."""
    matches = (_NODE.match(line) for line in listing.splitlines())
    return list(dict.fromkeys(match.group(1) for match in matches if match))


def completed(cut: str, nodes: list[str]) -> str | None:
    """The one node whose name begins like the name *cut*; None if there is not exactly one."""
    start = _CUT.sub("", cut)
    fitting = [node for node in nodes if node.startswith(start)]
    return fitting[0] if len(fitting) == 1 else None


class TfdbgFileNames:
    """File names of tensors, and `mapping.csv` for those that make none."""

    def __init__(self, timestamp: int) -> None:
        self._timestamp = timestamp
        self._taken: dict[str, str] = {}
        self.mapping: list[tuple[str, str]] = []

    def of(self, tensor: str) -> str:
        """The name of the file for *tensor* (`a/b:0` becomes `a_b.0.{timestamp}.npy`)."""
        plain = f"{tensor.replace('/', '_').replace(':', '.')}.{self._timestamp}"
        name = f"{plain}.npy"
        if len(name.encode()) <= LONGEST and name.lower() not in self._taken:
            self._taken[name.lower()] = tensor
            return name
        short = f"{self._timestamp}{len(self.mapping):06d}.npy"
        self.mapping.append((short, plain))
        return short


class Debugger:
    """A script that stops in tfdbg, and its prompt."""

    def __init__(self, command: list[str], time_out: float, log: Any = None) -> None:
        try:
            pexpect = import_module("pexpect")
        except ImportError as error:
            raise TfdbgError("pexpect is missing: pip install pexpect") from error
        self._pexpect = pexpect
        self._time_out = time_out
        self._asked = False
        try:
            # So wide that neither the terminal nor tfdbg breaks or cuts a line; dumb, so
            # that nothing is coloured or moved.
            self._child = pexpect.spawn(
                command[0],
                command[1:],
                encoding="utf-8",
                codec_errors="replace",
                timeout=time_out,
                dimensions=(200, 30000),
                env=_environment(),
            )
        except pexpect.ExceptionPexpect as error:
            raise TfdbgError(f"cannot start {command[0]}: {error}") from error
        self._child.logfile_read = log
        self._child.delaybeforesend = None

    def wait(self, time_out: float | None = None) -> str:
        """What the script says until the next prompt."""
        output = ""
        self._asked = False
        while True:
            limit = self._time_out if time_out is None else time_out
            try:
                which = self._child.expect([PROMPT, MORE], timeout=limit)
            except self._pexpect.TIMEOUT as error:
                raise TfdbgError(self._no_prompt(limit)) from error
            except self._pexpect.EOF as error:
                last = _last_line(self._child.before or "")
                raise TfdbgError(f"the script ended before tfdbg asked: {last}") from error
            output += self._child.before
            if which == 0:
                self._asked = True
                return str(output)
            self._child.send(" ")  # something between shows its output in pages

    def tell(self, command: str, time_out: float | None = None) -> str:
        """What tfdbg answers to *command*."""
        self._child.sendline(command)
        return self.wait(time_out).partition("\n")[2]  # the first line repeats the command

    def stop(self) -> None:
        """Leave tfdbg; the script ends with it."""
        if not self._asked:
            self._child.terminate(force=True)
        elif self._child.isalive():
            self._child.sendline("exit")
            try:
                self._child.expect(self._pexpect.EOF, timeout=10)
            except self._pexpect.TIMEOUT:
                self._child.terminate(force=True)
        self._child.close()

    def _no_prompt(self, limit: float) -> str:
        before = self._child.before or ""
        if _ESCAPE.search(before):
            return 'tfdbg shows its full-screen interface: start it with ui_type="readline"'
        last = _last_line(before)
        return f"no prompt of tfdbg within {limit:g} s (--time-out); last said: {last}"


def dump(debugger: Debugger, folder: Path, step: int, run_time_out: float) -> dict[str, str]:
    """Run to *step*, save all its tensors into *folder*; gives what was left out, and why."""
    debugger.wait(run_time_out)
    debugger.tell("run" if step == 1 else f"run -t {step}", run_time_out)
    names = TfdbgFileNames(time.time_ns() // 1000)
    left_out: dict[str, str] = {}
    scratch = Path(tempfile.mkdtemp(prefix="tfdbg"))
    try:
        tensors = _tensors(debugger, scratch, left_out)
        _say(f"{len(tensors)} tensors")
        for number, tensor in enumerate(tensors, 1):
            file = scratch / "value.npy"
            trouble = _save(debugger, tensor, file)
            if trouble:
                left_out[tensor] = trouble
            else:
                shutil.move(str(file), str(folder / names.of(tensor)))
            if number % 100 == 0:
                _say(f"{number} of {len(tensors)}")
    finally:
        shutil.rmtree(str(scratch), ignore_errors=True)
    if names.mapping:
        lines = (f"{short},{full}\n" for short, full in names.mapping)
        (folder / "mapping.csv").write_text("".join(lines), encoding="utf-8")
    return left_out


def _tensors(debugger: Debugger, scratch: Path, left_out: dict[str, str]) -> list[str]:
    """The names of all dumped tensors, cut ones completed from the list of nodes."""
    listed = listed_tensors(_written(debugger, "lt", scratch / "tensors"))
    if not listed:
        raise TfdbgError("tfdbg lists no tensors; does the step run anything?")
    if all(_TENSOR.match(name) for name in listed):
        return listed
    nodes = listed_nodes(_written(debugger, "ln", scratch / "nodes"))
    tensors: dict[str, None] = {}
    for name in listed:
        node = None if _TENSOR.match(name) else completed(name, nodes)
        if _TENSOR.match(name):
            tensors[name] = None
        elif node is None:
            left_out[name] = "tfdbg cut its name, and no one node's name begins like this"
        else:
            tensors.update(dict.fromkeys(_outputs(debugger, node, scratch / "probe.npy")))
    return list(tensors)


def _outputs(debugger: Debugger, node: str, probe: Path) -> list[str]:
    """The tensors of *node* that have a value."""
    tensors = (f"{node}:{port}" for port in range(_MOST_OUTPUTS))
    outputs: list[str] = []
    for tensor in tensors:
        if _save(debugger, tensor, probe):
            break
        outputs.append(tensor)
    return outputs


def _written(debugger: Debugger, command: str, file: Path) -> str:
    """What *command* shows, by way of a file: a terminal may break lines."""
    answer = debugger.tell(f"{command} > {file}")
    return file.read_text(encoding="utf-8") if file.is_file() else answer


def _save(debugger: Debugger, tensor: str, file: Path) -> str:
    """Save the first value of *tensor*; why it cannot be, or nothing."""
    if file.exists():
        file.unlink()
    answer = debugger.tell(f"pt {tensor} -n 0 -w {file}")
    if re.search(r"^\s*dtype: object\s*$", answer, re.MULTILINE):
        return "texts"
    if "Saved value to:" in answer and file.is_file():
        return ""
    errors = re.findall(r"^ERROR: (.*?)\s*$", answer, re.MULTILINE)
    if errors:
        return str(errors[0])
    if answer.lstrip().startswith('Tensor "'):
        return "a resource or the like"
    return f"tfdbg did not save it: {_last_line(answer)}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"tfdbg_driver: {text}\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "TERM": "dumb", "PYTHONUNBUFFERED": "1"}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in _ESCAPE.sub("", text).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"


def main(arguments: list[str] | None = None) -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(
        description="Dump every tensor of one TensorFlow 1 step through tfdbg."
    )
    parser.add_argument("-o", "--output", required=True, help="folder to write into, new or empty")
    parser.add_argument("--step", type=int, default=1, help="which run() call to dump (1)")
    parser.add_argument(
        "--time-out", type=float, default=60, help="seconds one answer of tfdbg may take (60)"
    )
    parser.add_argument(
        "--run-time-out", type=float, default=3600, help="seconds until and for the step (3600)"
    )
    parser.add_argument("--log", help="file for all that is said, for looking into trouble")
    parser.add_argument("command", nargs="+", help="-- then what starts the training script")
    args = parser.parse_args(arguments)
    folder = Path(args.output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        _complain(f"{folder}: there is something here already")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    log = Path(args.log).open("w", encoding="utf-8") if args.log else None  # noqa: SIM115
    debugger = None
    try:
        debugger = Debugger(args.command, args.time_out, log)
        left_out = dump(debugger, folder.resolve(), args.step, args.run_time_out)
    except TfdbgError as error:
        _complain(str(error))
        return 2
    finally:
        if debugger is not None:
            debugger.stop()
        if log is not None:
            log.close()
    for tensor, reason in left_out.items():
        _complain(f"left out: {tensor}: {reason}")
    written = len(list(folder.glob("*.npy")))
    _say(f"{folder}: {written} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
