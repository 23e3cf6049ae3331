"""The files of one recorded step: ``dump.json``, ``construct.json``, ``stack.json``, tensors.

The layout is the one of msprobe's level ``mix`` and task ``tensor``, so one reader serves both.
Beyond it a tensor has ``source``, the name of the output it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from divergraph.files.npy_file import write_npy
from divergraph.files.os_errors import os_errors_told
from importers.dumps.msprobe.index import TENSORS
from importers.msprobe.importer import CONSTRUCT, DUMP, STACK

# numpy has no type for these: their bits are written, and dump.json says what they are.
_RAW = {1: np.dtype("V1"), 2: np.dtype("V2"), 4: np.dtype("V4")}
_HINT = "give a folder on a disk with enough room"


class StepFiles:
    """Writes one step of one rank into *folder*, which appears under its name when it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._errors():
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            self._tensors = self._unfinished / TENSORS
            self._tensors.mkdir()
        self._written: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.bytes = 0
        self.calls: dict[str, Mapping[str, Any]] = {}
        self.construct: dict[str, str | None] = {}
        self.stacks: dict[tuple[str, ...], list[str]] = {}

    def tensor(self, name: str, value: torch.Tensor) -> dict[str, Any]:
        """What ``dump.json`` says of the tensor *name*, whose values are in a file from now on.

        Values that have no plain array (quantised, sparse, on no device) are left out.
        """
        entry: dict[str, Any] = {
            "type": "torch.Tensor",
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "requires_grad": value.requires_grad,
        }
        array = plain_array(value)
        if array is None:
            return entry
        digest = hashlib.sha1(array.reshape(-1).view(np.uint8).data, usedforsecurity=False)
        same = (entry["dtype"], tuple(value.shape), digest.digest())
        if same not in self._written:
            # A name may be longer than a file's may be, or differ from another in case only.
            file = f"{len(self._written)}.{name[-200:]}.npy"
            with self._errors():
                self.bytes += write_npy(self._tensors / file, array)
            self._written[same] = file
        entry["data_name"] = self._written[same]
        if not is_constant(array):  # equal zeros do not say that one came from the other
            entry["hash"] = digest.hexdigest()
        return entry

    @property
    def tensors(self) -> int:
        """How many different tensors were written."""
        return len(self._written)

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write what describes the tensors, and let the folder appear."""
        frames = {
            str(at): [names, list(stack)] for at, (stack, names) in enumerate(self.stacks.items())
        }
        with self._errors():
            self._write(STACK, frames)
            self._write(CONSTRUCT, self.construct)
            content = {"task": "tensor", "level": "mix", "framework": "pytorch", **header}
            self._write(DUMP, {**content, "data": self.calls})
            self._unfinished.rename(self._folder)

    def discard(self) -> None:
        """Take away what was written of a step that will not be whole."""
        shutil.rmtree(self._unfinished, ignore_errors=True)
        for folder in self._folder.parents[:2]:  # those of the step and of the recording
            with suppress(OSError):  # others have something in it
                folder.rmdir()

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        with (self._unfinished / name).open("x", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())

    def _errors(self) -> Any:
        return os_errors_told("cannot record this step", self._folder, _HINT)


def plain_array(value: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """The values of a tensor with their bits as they are; None if it has no plain values."""
    if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
        return None
    own = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    raw = own.reshape(-1).view(torch.uint8).numpy()
    word = str(value.dtype).removeprefix("torch.")
    known = getattr(np, word, None) if word != "bool" else np.bool_
    dtype = np.dtype(known) if isinstance(known, type) else _RAW.get(value.element_size())
    return None if dtype is None else raw.view(dtype).reshape(tuple(value.shape))


def is_constant(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements have the same bits."""
    plain = array.reshape(-1).view(f"u{array.itemsize}" if array.itemsize <= 8 else array.dtype)
    if plain.size == 0 or plain[0] != plain[-1]:  # which tells of most tensors without a look
        return plain.size == 0
    return bool((plain == plain[0]).all())


def leaves(value: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [tensor for inner in value for tensor in leaves(inner)]
    return []
