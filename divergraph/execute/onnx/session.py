"""ONNX Runtime sessions as the executors need them: nothing rewritten, nothing printed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.files.npy_file import write_npy
from graphstore.errors import ExecutionError
from graphstore.own_folder import OwnFolder

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession, OrtValue, SessionOptions

_SEED = 20_240_229
_FATAL_ONLY = 4
_NEWEST_FORM = re.compile(r"Unsupported model IR version: \d+, max supported IR version: (\d+)")
# A message of protobuf cannot be larger; such a model has to keep its weights outside.
_LARGEST_MESSAGE = 2**31 - 1


def load_onnxruntime() -> None:
    """Import ONNX Runtime, and onnx for the models."""
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401


def plain_options() -> SessionOptions:
    """Options that run each node by itself, in the model's order, on reproducible numbers."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _FATAL_ONLY
    # Sums must come out the same however many outputs are asked for.
    options.use_deterministic_compute = True
    options.enable_mem_pattern = False
    # Sessions are many and short: threads that wait for work must not compute in the meantime.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


@dataclass(frozen=True, slots=True)
class OnnxSession:
    """A session of ONNX Runtime, with the weights it points to."""

    opened: InferenceSession
    _weights: Sequence[OrtValue] = ()

    @property
    def types(self) -> dict[str, str]:
        """The outputs' types by name, as ONNX Runtime writes them."""
        return {output.name: output.type for output in self.opened.get_outputs()}


def open_session(
    model: ModelProto,
    folder: Path,
    options: SessionOptions,
    weights: Mapping[str, Array] | None = None,
) -> OnnxSession:
    """A session of *model*, whose weights outside the file lie in *folder*.

    The values of those among *weights* are taken from there, without a copy.

    A model whose file is of a newer form than ONNX Runtime reads is opened as one of the
    newest it does, if its ops are known.

    Raises:
        ExecutionError: ONNX Runtime refuses it.
    """
    import onnxruntime

    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    onnxruntime.set_seed(_SEED)
    if model.ByteSize() > _LARGEST_MESSAGE:
        raise ExecutionError(
            "the model has more than 2 GiB in one file",
            hint="save it with its weights as external data",
        )
    ort_values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value)
        for name, value in (weights or {}).items()
    }
    for name, value in ort_values.items():
        options.add_initializer(name, value)
    try:
        session = _opened(model, options)
    except runtime_errors() as error:
        newest = _NEWEST_FORM.search(str(error))
        with onnxruntime_told("ONNX Runtime refuses the model"):
            if newest is None:
                raise
            session = _opened(model, options, ir_version=int(newest[1]))
    return OnnxSession(session, tuple(ort_values.values()))


def _opened(
    model: ModelProto, options: SessionOptions, ir_version: int | None = None
) -> InferenceSession:
    """A session of *model*, said to be of the older form *ir_version* if one is given: what
    its ops do follows from the opsets, which stay."""
    import onnxruntime

    version_before = model.ir_version
    if ir_version is not None:
        model.ir_version = ir_version
    try:
        content = model.SerializeToString()
    finally:
        model.ir_version = version_before
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run_session(
    session: OnnxSession, names: Sequence[str], feeds: Mapping[str, Array]
) -> list[Any]:
    """The values of the outputs *names*.

    Raises:
        ExecutionError: ONNX Runtime fails while running.
    """
    with onnxruntime_told("ONNX Runtime fails"):
        return list(session.opened.run(list(names), dict(feeds)))


@contextmanager
def onnxruntime_told(what: str) -> Iterator[None]:
    """What ONNX Runtime raises in the block as an ExecutionError that begins with *what*."""
    try:
        yield
    except runtime_errors() as error:
        raise ExecutionError(f"{what}: {first_line(error)}") from error


def runtime_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises; its own kinds have no common base but Exception."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    own = tuple(
        kind
        for kind in vars(state).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    )
    return (*own, RuntimeError, ValueError, MemoryError)


def first_line(error: Exception) -> str:
    """What an error says, on one line of bearable length."""
    return " ".join(str(error).split())[:400] or type(error).__name__


def element_type(declared: str) -> str | None:
    """``float`` of ONNX Runtime's ``tensor(float)``; None for what is no tensor."""
    inner = declared.removeprefix("tensor(")
    return inner.removesuffix(")") if inner != declared else None


def is_plain(value: object) -> bool:
    """Whether a value is an array that can be kept in a file."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufc"


# Values between the parts of a run: in memory, the largest in scratch files.


class LiveValues:
    """Keeps values until they were taken as often as said, about *memory* bytes at most."""

    def __init__(self, memory: int, uses: Mapping[str, int]) -> None:
        self._memory = memory
        self._uses = dict(uses)
        self._held: dict[str, Array] = {}
        self._files: dict[str, Path] = {}
        self._folder: OwnFolder | None = None

    def keep(self, name: str, value: Array) -> None:
        """Keep *value* if it will be taken."""
        if self._uses.get(name, 0) > 0:
            self._held[name] = value
            self._spill()

    def never_let_go(self, name: str) -> None:
        """Keep the value of *name* until :meth:`close`, however often it is taken."""
        self._uses[name] = self._uses.get(name, 0) + 1

    def take(self, name: str, times: int = 1) -> Array:
        """The value kept under *name*, for so many of its uses; let go after its last one."""
        self._uses[name] -= times
        value = self.look(name)
        if self._uses[name] <= 0 and self._held.pop(name, None) is None:
            self._files[name].unlink()
        return value

    def look(self, name: str) -> Array:
        """The value kept under *name*, which stays."""
        if name in self._held:
            return self._held[name]
        value: Array = np.load(self._files[name], allow_pickle=False)
        return value

    def close(self) -> None:
        """Remove the scratch files."""
        self._held.clear()
        if self._folder is not None:
            self._folder.remove()

    def _spill(self) -> None:
        while sum(value.nbytes for value in self._held.values()) > self._memory:
            plain = [name for name, value in self._held.items() if is_plain(value)]
            if not plain:
                return  # texts and the like are never big
            name = max(plain, key=lambda tensor_name: self._held[tensor_name].nbytes)
            if self._folder is None:
                self._folder = OwnFolder("values")
            path = self._folder.path / f"{len(self._files)}.npy"
            write_npy(path, self._held.pop(name))
            self._files[name] = path
