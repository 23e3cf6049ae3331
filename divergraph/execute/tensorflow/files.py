"""TensorFlow itself, set up to be reproducible, and its model files as it reads them."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph

# Read once, when TensorFlow starts: no oneDNN (its sums differ from those of the plain
# kernels), nothing logged but what is fatal.
_ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}

# Ops that draw numbers. With both seeds 0 (the default) each run draws other ones.
SEEDED = frozenset(
    (
        *("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"),
        *("ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson", "RandomPoissonV2"),
        *("RandomShuffle", "RandomCrop", "Multinomial", "UniformCandidateSampler"),
        *("LogUniformCandidateSampler", "LearnedUnigramCandidateSampler"),
        *("ThreadUnsafeUnigramCandidateSampler", "AllCandidateSampler", "FractionalMaxPool"),
        *("FractionalAvgPool", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2"),
    )
)
# Lines of an error that say where in TensorFlow it was met, not what it is.
_WHERE = ("[[{{node", "Graph execution error", "Detected at node", "Node:")
_SEED = 20_240_229


@cache
def tensorflow() -> Any:
    """The package, loaded quietly and with reproducible settings.

    Raises:
        ImportError: it is not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = import_module("tensorflow")
    package.get_logger().setLevel("ERROR")
    return package


def new_session(graph: Any) -> Any:
    """A session that runs *graph* as it is: one thread, no optimiser, no accelerator."""
    v1 = tensorflow().compat.v1
    config = v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0}
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    plain = config.graph_options.optimizer_options
    plain.opt_level = v1.OptimizerOptions.L0
    plain.global_jit_level = v1.OptimizerOptions.OFF
    return v1.Session(graph=graph, config=config)


def tensorflow_errors() -> tuple[type[Exception], ...]:
    """What TensorFlow raises for a model or values it does not take."""
    package = tensorflow()
    return (package.errors.OpError, ValueError, TypeError, RuntimeError, KeyError, MemoryError)


@contextmanager
def tensorflow_told(what: str, where: str = "", hint: str = "") -> Iterator[None]:
    """What TensorFlow raises in the block as an ExecutionError that begins with *what*."""
    try:
        yield
    except tensorflow_errors() as error:
        message = f"{what}: {first_line(error)}" if what else first_line(error)
        raise ExecutionError(message, where=where, hint=hint) from error


def first_line(error: Exception) -> str:
    """What an error of TensorFlow says, on one line; not the stack of where the op was made."""
    message = str(getattr(error, "message", "") or error)
    message = message.partition("\n\nOriginal stack")[0].partition("\n\nErrors may have")[0]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    other_lines = [line for line in lines if not line.startswith(_WHERE)]
    return " ".join(other_lines or lines)[:300] or type(error).__name__


def load_meta_graph(graph: ModelGraph) -> Any:
    """The MetaGraphDef *graph* was read from; of a bare GraphDef, one that holds it.

    Devices are taken out and ops that draw numbers get a seed.

    Raises:
        ExecutionError: TensorFlow cannot read the file.
    """
    path = Path(graph.source)
    v1 = tensorflow().compat.v1
    meta = v1.MetaGraphDef()
    if graph.format == "graphdef":
        _parse(meta.graph_def, path)
    elif graph.format == "meta":
        _parse(meta, path)
    else:
        saved = import_module("tensorflow.core.protobuf.saved_model_pb2").SavedModel()
        _parse(saved, path)
        meta = _same(saved.meta_graphs, graph)
    for number, node in enumerate(_nodes(meta.graph_def)):
        node.device = ""
        _plain(node, number)
    return meta


def saved_values(graph: ModelGraph) -> str:
    """The prefix of the checkpoint beside the file *graph* was read from; empty if none."""
    path = Path(graph.source)
    if graph.format == "meta":
        prefix = path.with_suffix("")
    elif graph.format == "saved_model":
        prefix = path.parent / "variables" / "variables"
    else:
        return ""
    return str(prefix) if is_checkpoint(str(prefix)) else ""


def is_checkpoint(prefix: str) -> bool:
    """Whether a checkpoint of either format has this prefix."""
    return Path(f"{prefix}.index").is_file() or Path(prefix).is_file()


def _parse(message: Any, path: Path) -> None:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    try:
        data = path.read_bytes()
        try:
            message.ParseFromString(data)
        except DecodeError:
            message.Clear()
            text_format.Parse(data.decode("utf-8"), message)
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise ExecutionError(
            f"TensorFlow cannot read the model: {error}", where=str(path)
        ) from error


def _same(metas: Iterable[Any], graph: ModelGraph) -> Any:
    """Of the graphs of a SavedModel the one that was read."""
    names = {op.name for op in graph.ops if not op.subgraph}
    for meta in metas:
        if {node.name for node in meta.graph_def.node} == names:
            return meta
    raise ExecutionError("the file has changed since it was read", where=graph.source)


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _plain(node: Any, number: int) -> None:
    for name in ("_output_shapes", "_class"):
        if name in node.attr:
            del node.attr[name]
    if node.op in SEEDED and not node.attr["seed"].i and not node.attr["seed2"].i:
        node.attr["seed"].i = _SEED
        node.attr["seed2"].i = zlib.crc32(node.name.encode()) + number + 1


_QUANTISED = {"qint8": "i1", "quint8": "u1", "qint16": "i2", "quint16": "u2", "qint32": "i4"}


def plain(value: Any) -> Array:
    """A fetched value as an array of numpy's own types, that shares no memory with a variable.

    bfloat16 and 8-bit floats become float32, 4-bit numbers int8, quantised ones the
    integers they are stored as.
    """
    array = np.array(value)
    if array.dtype.names:
        return array.view(array.dtype[0]).reshape(array.shape)
    if array.dtype.kind in "biufc":
        return array
    return array.astype(np.int8 if "int" in array.dtype.name else np.float32)


def as_typed(value: Array, kind: Any) -> Any:
    """*value* in TensorFlow's type *kind*; a device may hold another one of its sort."""
    name = kind.base_dtype.name
    if name in _QUANTISED:
        stored = np.dtype(_QUANTISED[name])
        return np.ascontiguousarray(value, stored).view(kind.base_dtype.as_numpy_dtype)
    if name == "string":
        return value
    return np.asarray(value).astype(kind.base_dtype.as_numpy_dtype, copy=False)
