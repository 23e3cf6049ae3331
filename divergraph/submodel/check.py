"""Whether an exported part gives the outputs it should: our replay program says, not its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from divergraph.execute.child.executor import called_in_child
from divergraph.execute.child.limits import ModelEndedError
from divergraph.execute.onnx.session import load_onnxruntime
from divergraph.execute.tensorflow.files import tensorflow
from divergraph.execute.tensorflow_outside import keep_inside
from divergraph.files.os_errors import os_errors_told
from divergraph.submodel.bundle import MANIFEST
from divergraph.submodel.replay import replay
from divergraph.text.words import counted
from graphstore.errors import DivergraphError, InputError
from importers.archives import refuse_archive
from importers.registry import installed, read_graph

if TYPE_CHECKING:
    from divergraph.execute.translate.tensorflow.factory import TranslatedTensorFlowFactory

_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class PartCheck:
    """``passed`` is None where the part cannot be run here; ``lines`` say how it went."""

    passed: bool | None
    lines: tuple[str, ...]


def check_bundle(folder: Path, *, device: bool = False) -> PartCheck:
    """Run the part in *folder* on its golden inputs, or on the *device*'s, and compare.

    It runs in a process of its own, which reads this folder only. Nothing in it is taken for a
    program; a part of a TensorFlow model that reaches outside of the model is not run.

    Raises:
        InputError: this is no bundle, or one whose files lie outside of it.
    """
    place = folder.resolve()
    runner = _checked_manifest(folder, place)
    call_args = (place, "device" if device else "golden")
    try:
        code, lines = called_in_child((place,), _LOADS.get(runner, _nothing), _replayed, *call_args)
    except ModelEndedError as error:
        return PartCheck(None, (str(error),))
    passed = {0: True, 1: False}.get(code)
    return PartCheck(passed, tuple(lines[-_MOST_LINES:]))


def _checked_manifest(folder: Path, place: Path) -> str:
    """What runs the part in *folder*, of which *place* is the real path."""
    refuse_archive(folder, "the folder of a bundle")
    inside = sorted(path.parent.name for path in place.glob(f"*/{MANIFEST}"))
    if inside and not (place / MANIFEST).exists():
        what = f"this folder holds {counted(len(inside), 'bundle')} and is none itself"
        raise InputError(what, where=str(folder), hint=f"replay {folder / inside[-1]}")
    with os_errors_told("this is no bundle", folder):
        text = (place / MANIFEST).read_bytes()
    try:
        manifest = json.loads(text)
        runner, names = str(manifest["runner"]), list(_files(manifest))
        leading_out = next((name for name in names if not _is_inside(place, name)), None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
        raise InputError(
            f"{MANIFEST} is not that of a bundle ({type(error).__name__})", where=str(folder)
        ) from error
    if leading_out is not None:
        raise InputError(f"the file {leading_out!r} lies outside of the bundle", where=str(folder))
    return runner


def _files(manifest: Any) -> Iterator[str]:
    """All files a replay would open."""
    yield from manifest.get("sha256", ())
    yield from manifest["files"]
    for tensor in (*manifest.get("inputs", ()), *manifest.get("outputs", ())):
        yield from (tensor[side] for side in ("golden", "device") if tensor[side] is not None)


def _is_inside(place: Path, name: str) -> bool:
    path = PurePosixPath(name)
    plain = not path.is_absolute() and ".." not in path.parts
    return plain and (place / path).resolve().is_relative_to(place)


def _nothing() -> None:
    """Of what nothing here runs."""


def _load_opencv() -> None:
    import cv2  # noqa: F401


def _load_tensorflow() -> None:
    try:
        tensorflow()
    except ImportError:
        _as_onnx().load()
        installed()  # the importers, too, while their files may still be read


_LOADS: Mapping[str, Callable[[], object]] = {
    "onnx": load_onnxruntime,
    "tf": _load_tensorflow,
    "caffe": _load_opencv,
}


def _as_onnx() -> TranslatedTensorFlowFactory:
    from divergraph.execute.translate.tensorflow.factory import TranslatedTensorFlowFactory

    return TranslatedTensorFlowFactory()


def _run_as_onnx(manifest: dict[str, Any], feeds: dict[str, Any]) -> list[Any]:
    """A part of a TensorFlow model where TensorFlow is not: as `capture` runs it."""
    path = replay.HERE / manifest["files"][0]
    wanted = [tensor["called"] for tensor in manifest["outputs"]]
    executor = _as_onnx().open_with(path, read_graph(path), {})
    try:
        values = dict(executor.run(feeds, wanted))
    finally:
        executor.close()
    return [values[name] for name in wanted]


def _replayed(_: Path, bundle: Path, side: str) -> list[Any]:
    """The exit code and the lines of our replay program; in the process that runs the part."""
    try:
        refused = _refused(bundle)
        if refused:
            return [2, [refused]]
        replay.HERE = bundle
        if find_spec("tensorflow") is None:
            replay.RUNNERS["tf"] = _run_as_onnx
        return list(replay.replayed(side))
    except (DivergraphError, MemoryError, EOFError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a stranger's files lead to
        message = " ".join(str(error).split())[:400]
        return [2, [f"it cannot be run here: {type(error).__name__}: {message}"]]


def _refused(folder: Path) -> str:
    """Why the part is not run here; empty if it is, or if its own program will say why not."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["runner"] != "tf":
        return ""
    try:
        graph_def = tensorflow().compat.v1.GraphDef
    except ImportError:
        return ""
    definition = graph_def.FromString((folder / manifest["files"][0]).read_bytes())
    inside = graph_def.FromString(definition.SerializeToString())
    refusals = keep_inside(inside, ())
    if refusals:
        return next(iter(refusals.values()))
    return "" if inside == definition else "an op of it prints or writes: it is not run"
