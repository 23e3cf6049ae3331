"""Answers as TensorFlow's debugger does with its line interface (as of 1.15 to 2.21).

Stands for a training script that stops in tfdbg: `fake_tfdbg.py [option...]`. Options make it
behave as it does in trouble: `--cut` shortens the names it lists, `--full-screen` moves a cursor,
`--pages` stops in the middle of output, `--ends` ends before the prompt, `--silent` never answers.
"""

from __future__ import annotations

import os
import re
import sys
import termios
import time
import tty
from pathlib import Path

import numpy as np

LONG = "/".join(f"a_scope_with_a_rather_long_name_{number}" for number in range(8))
VALUES: dict[str, list[object]] = {
    "IteratorGetNext:0": [np.arange(6, dtype=np.float32).reshape(2, 3)],
    "IteratorGetNext:1": [np.array([1, 0])],
    "net/conv1/kernel/read:0": [np.full((2, 2), 0.5, np.float32)],
    "net/conv1/Relu:0": [np.float32([[0, 1], [2, 0]])],
    f"{LONG}/MatMul:0": [np.float32([7])],
    "loop/add:0": [np.float32(1), np.float32(2), np.float32(3)],
    "text:0": [np.array([b"tfdbg"], dtype=object)],
    "stack:0": ['tensor_content: "\\214\\001\\n"\n'],
}
TYPES = {"IteratorGetNext": "IteratorGetNext", "text": "AsString", "stack": "StackV2"}
OPTIONS = frozenset(sys.argv[1:])
HELP = """Select one of the following commands to proceed ---->
  run:
    Execute the run() call with debug tensor-watching
  run -t <T>:
    Execute run() calls (T - 1) times without debugging, then execute run() once more"""


def listing() -> str:
    rows = [f"{sum(map(len, VALUES.values()))} dumped tensor(s):", ""]
    rows.append("t (ms)    Size (B) Op type              Tensor name")
    moment = 0.0
    for tensor, dumps in VALUES.items():
        for _ in dumps:
            node = tensor.partition(":")[0]
            kind = TYPES.get(node, node.rpartition("/")[2])
            name = f"{tensor[:60]}..." if "--cut" in OPTIONS and len(tensor) > 60 else tensor
            rows.append(f"[{moment:.3f}]".ljust(10) + f"{198}".ljust(9) + kind.ljust(21) + name)
            moment += 0.45
    return "\n".join(rows)


def nodes() -> str:
    names = dict.fromkeys(tensor.partition(":")[0] for tensor in VALUES)
    return "\n".join([f"{len(names)} node(s):", *(f"  {name}" for name in names)])


def print_tensor(tensor: str, number: int, file: Path) -> str:
    node = tensor.partition(":")[0]
    if not any(each.startswith(f"{node}:") for each in VALUES):
        return f'ERROR: Node "{node}" does not exist in partition graphs'
    if tensor not in VALUES:
        return f'ERROR: Tensor "{tensor}" did not generate any dumps.'
    value = VALUES[tensor][number]
    many = f" (dump #{number})" if len(VALUES[tensor]) > 1 else ""
    head = f'Tensor "{tensor}:DebugIdentity"{many}:'
    if isinstance(value, str):
        return f"{head}\n{value}"
    array = np.asarray(value)
    np.save(file, array)
    size = file.stat().st_size
    facts = f"  dtype: {array.dtype}\n  shape: {array.shape}\n\nSaved value to: {file} ({size}B)"
    return f"{head}\n{facts}\n\n{array!r}"


def answered(command: str) -> str:
    command, _, file = command.partition(" > ")
    words = command.split()
    if words[0] == "lt":
        text = listing()
    elif words[0] == "ln":
        text = nodes()
    elif words[0] == "pt" and re.fullmatch(r"pt \S+ -n \d+ -w \S+", command):
        text = print_tensor(words[1], int(words[3]), Path(words[5]))
    else:
        text = f'ERROR: Invalid command prefix "{words[0]}"'
    if file:
        Path(file.strip()).write_text(f"{text}\n", encoding="utf-8")
        text += f"\nWrote output to {file.strip()}"
    return text


def show(text: str) -> None:
    if "--pages" in OPTIONS and text.count("\n") > 4:
        first, rest = text.split("\n", 1)
        as_before = termios.tcgetattr(0)
        tty.setcbreak(0)  # a pager takes a key as it is hit; this drops what came before
        sys.stdout.write(f"{first}\n--More--")
        sys.stdout.flush()
        os.read(0, 1)
        termios.tcsetattr(0, termios.TCSANOW, as_before)
        text = rest
    sys.stdout.write(f"{text}\n")


def asked() -> str:
    sys.stdout.write("\ntfdbg> ")
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def main() -> None:
    sys.stdout.write("WARNING:tensorflow: loading\n")
    if "--ends" in OPTIONS:
        sys.exit("ValueError: no data set here")
    if "--silent" in OPTIONS:
        time.sleep(60)
    if "--full-screen" in OPTIONS:
        sys.stdout.write("\x1b[?1049h\x1b[1;24r\x1b[4l--- run-start: run #1 ---")
        sys.stdout.flush()
        time.sleep(60)
    show(f"run-start: run #1: 1 fetch (train_op); 0 feeds\n\n{HELP}")
    command = asked()
    if command not in ("run", "run -t 3"):
        sys.exit(f"unexpected: {command}")
    show(f"run-end: run #{command[-1] if command[-1].isdigit() else 1}: 1 fetch (train_op)")
    show(listing())
    while (command := asked()) != "exit":
        show(answered(command))


if __name__ == "__main__":
    main()
