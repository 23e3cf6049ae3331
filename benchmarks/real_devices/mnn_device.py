"""MNN as a device: an ONNX model converted and run on the CPU, the tensors of its fused graph out.

    python benchmarks/real_devices/mnn_device.py MODEL FEEDS.npz TENSORS.npz [OPTION…]

Writes the tensors that the converted graph still makes, under their names in MODEL; options are
those of MNN's converter, and ``lowMemory`` to compute products of 8-bit weights in integers. A
process for each run, as the converter ends the process at ops it does not know. The converter is
called by its binding: MNN's own commands install a package for their statistics wherever ``pip``
is.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
LOW_MEMORY = "lowMemory"
_NOT_JSON = re.compile(r"(?<=[\[,:\s])-?(nan|inf)(?=[,\]}\s])")
"""Numbers that MNN writes and JSON does not have; none of them is read here."""
_MADE_BEFORE = frozenset(("Input", "Const", "TrainableParam"))


@dataclass(frozen=True)
class Mnn:
    """The CPU backend on models converted with *options*."""

    options: tuple[str, ...] = ()

    def run(
        self, model: Path, feeds: Mapping[str, Array], only: Collection[str] | None = None
    ) -> dict[str, Array]:
        """The tensors of a run on *feeds* by name: those of *only*, or all that are left of the
        graph's. Raises ``ValueError`` where MNN cannot convert or run the model."""
        with tempfile.TemporaryDirectory() as folder:
            given, made = Path(folder) / "feeds.npz", Path(folder) / "tensors.npz"
            np.savez(given, **dict(feeds))
            command = [sys.executable, __file__, *map(str, (model, given, made)), *self.options]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode or not made.exists():
                raise ValueError(f"MNN does not run {model.name}: {_last(done.stderr)}")
            with np.load(made) as found:
                return {each: found[each] for each in found if only is None or each in only}

    def kept(self, _model: Path) -> None:
        """All tensors of a run are those the fused graph keeps."""


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no answer"])[-1]


def _converted(model: Path, folder: Path, options: list[str]) -> tuple[Path, dict[str, Any]]:
    """The converted *model*, as a file and as what its JSON says."""
    import _tools  # MNN's binding of its converter

    target, text = folder / "model.mnn", folder / "model.json"
    command = ["-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(target)]
    _tools.mnnconvert(["", *command, "--bizCode", "MNN", *options])
    _tools.mnnconvert(["", "-f", "MNN", "--modelFile", str(target), "--JsonFile", str(text)])
    written = text.read_text(encoding="utf-8", errors="replace")
    said: dict[str, Any] = json.loads(_NOT_JSON.sub("0", written))
    return target, said


def _run(model: Path, feeds: Mapping[str, Array], options: list[str]) -> dict[str, Array]:
    from MNN import expr, nn

    with tempfile.TemporaryDirectory() as folder:
        asked = [each for each in options if each != LOW_MEMORY]
        path, graph = _converted(model, Path(folder), asked)
        known = {name for node in onnx.load_model(str(model)).graph.node for name in node.output}
        names = [
            graph["tensorName"][number]
            for op in graph["oplists"]
            if op["type"] not in _MADE_BEFORE
            for number in op["outputIndexes"]
        ]
        wanted = [name for name in dict.fromkeys(names) if name in known]
        types = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}
        module = nn.load_module_from_file(
            str(path),
            list(feeds),
            wanted,
            precision_mode=expr.PrecisionMode.High,
            memory_mode=getattr(expr.MemoryMode, "Low" if LOW_MEMORY in options else "Normal"),
        )
        given = [
            expr.const(each, list(each.shape), expr.NCHW, types[str(each.dtype)])
            for each in map(_narrow, feeds.values())
        ]
        found = module.forward(given)
        return {
            name: np.array(_plain(value, expr).read())
            for name, value in zip(wanted, found, strict=True)
        }


def _narrow(value: Array) -> Array:
    """*value* in a type MNN has: it knows no truth values and no integers of 64 bits."""
    wide = value.dtype in (np.bool_, np.int64)
    return np.ascontiguousarray(value.astype(np.int32) if wide else value)


def _plain(value: Any, expr: Any) -> Any:
    """*value* without the padding and order of channels in fours."""
    return expr.convert(value, expr.NCHW) if value.data_format == expr.NC4HW4 else value


if __name__ == "__main__":
    _model, _feeds, _made = map(Path, sys.argv[1:4])
    with np.load(_feeds) as _given:
        np.savez(_made, **_run(_model, {name: _given[name] for name in _given}, sys.argv[4:]))
