"""What a TensorFlow session holds before the step: variables, tables, iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from divergraph.execute.contract import Array
from divergraph.execute.tensorflow.branches import HANDLES, READS, VARIABLES
from divergraph.execute.tensorflow.files import as_typed, is_checkpoint, tensorflow, tensorflow_told
from divergraph.execute.tensorflow.step import is_variable, needed
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import or_raise
from graphstore.errors import ExecutionError, InputError
from graphstore.model import ModelGraph, TensorIO

_TABLES = ("InitializeTable", "LookupTableImport")
_MAIN = ("saved_model_main_op", "legacy_init_op")


def values_of_dump(graph: ModelGraph, folder: Path) -> dict[str, Array]:
    """The variables' values in a dump of the model, by variable.

    A dump holds a variable as what its op gives or as what an op that only reads it gives.
    It has to be of a moment before the step changes it.

    Raises:
        InputError: the folder is missing or holds no variable.
    """
    from importers.dumps.detect import scan_dumps

    tensors = scan_dumps(folder, graph).tensors
    variables = {op.id for op in graph.ops if op.type in VARIABLES}
    values: dict[str, Array] = {}
    for op in graph.ops:
        reads = op.type in ("Identity", READS) and len(op.inputs) == 1
        source = op.source() if reads else None
        variable = op.id if op.id in variables else source.op if source else ""
        key = (op.id, TensorIO.OUTPUT, 0)
        if variable in variables and variable not in values and key in tensors:
            values[variable] = or_raise(read_tensor(tensors[key]))
    if variables and not values:
        raise InputError("none of the model's variables is dumped here", where=str(folder))
    return values


def initializers(graph: Any, meta: Any) -> dict[str, str]:
    """The op that gives each variable its first value, by variable."""
    names = {op.name for op in graph.get_operations()}
    initializer_of: dict[str, str] = {}
    message = import_module("tensorflow.core.framework.variable_pb2").VariableDef
    for name in sorted(meta.collection_def):
        for entry in meta.collection_def[name].bytes_list.value if "variables" in name else ():
            variable = message.FromString(entry)
            initializer_of[variable.variable_name.partition(":")[0]] = variable.initializer_name
    for op in graph.get_operations():
        if is_variable(op):
            initializer_of.setdefault(op.name, f"{op.name}/Assign")
    return {name: op for name, op in initializer_of.items() if name in names and op in names}


class Preparation:
    """Brings each session of one graph into the same state.

    Variables get their values from the *checkpoint* of this prefix, those in *arrays* from there.
    """

    def __init__(
        self,
        graph: Any,
        meta: Any,
        checkpoint: str,
        arrays: Mapping[str, Array],
        used: set[Any],
        fed: frozenset[str],
        outside: Mapping[str, str],
    ) -> None:
        self._graph = graph
        self._outside = outside
        self._checkpoint, self._arrays = checkpoint, arrays
        self._fed = fed
        self._variables = sorted((op for op in used if is_variable(op)), key=lambda op: op.name)
        self._reader = _reader(checkpoint)
        self._named = [op for op in self._variables if self._stored(op)]
        rest = [op for op in self._variables if op not in self._named]
        self._restore = _restore_op(graph, meta) if checkpoint and rest else ("", "")
        if self._why_not(self._restore[0]):
            self._restore = ("", "")
        initializer_of = initializers(graph, meta)
        reasons = {variable: self._why_not(op) for variable, op in initializer_of.items()}
        first_ops = {
            variable: op for variable, op in initializer_of.items() if not reasons[variable]
        }
        self._init = [first_ops[op.name] for op in rest if op.name in first_ops]
        self._asks: dict[str, Any] = {}
        self._checks = {op: _asks(graph, op) for op in rest} if self._restore[0] else {}
        if self._restore[0]:
            self._asks = {
                first_ops[op.name]: _asks(graph, op) for op in rest if op.name in first_ops
            }
        else:
            self._check([op for op in rest if op.name not in first_ops], reasons)
        self._assigns = {op.name: _assign(graph, op) for op in self._named}
        late = [*self._tables(used), *_main_ops(graph, meta), *self._iterators(used)]
        self._late = [op for op in late if not self._why_not(op)]
        self._assets = _assets(meta, checkpoint)

    def placeholders(self) -> tuple[str, ...]:
        """What must be fed to prepare a session."""
        ops = [self._graph.get_operation_by_name(name) for name in (*self._init, *self._late)]
        own = {self._restore[1], *self._assets}
        names = (
            op.outputs[0].name
            for op in needed(ops, self._fed)
            if op.type in ("Placeholder", "PlaceholderV2")
        )
        return tuple(sorted(name for name in names if name not in own and name not in self._fed))

    def prepare(
        self, session: Any, feeds: Mapping[str, Any], *, only_variables: bool = False
    ) -> None:
        """Give variables, tables and iterators of *session* their first state.

        Raises:
            ExecutionError: TensorFlow cannot.
        """
        restore, filename = self._restore
        assets = self._assets
        hint = "--checkpoint PREFIX or --variables DIR says where their values are"
        with tensorflow_told("TensorFlow cannot prepare the variables", hint=hint):
            if restore:
                session.run(restore, {filename: self._checkpoint})
            init = self._init
            if self._asks:
                there = session.run(list(self._asks.values()))
                init = [op for op, is_there in zip(self._asks, there, strict=True) if not is_there]
            if init:
                session.run(init, feeds)
            for name, (placeholder, assign) in self._assigns.items():
                session.run(assign, {placeholder: self._value(name, placeholder.dtype)})
            for name in () if only_variables else self._late:
                session.run(name, {**feeds, **assets})

    def without_value(self, session: Any) -> set[Any]:
        """The variables a restored checkpoint left without a value, in a prepared session."""
        if not self._checks:
            return set()
        there = session.run(list(self._checks.values()))
        return {op for op, is_there in zip(self._checks, there, strict=True) if not is_there}

    def _stored(self, op: Any) -> bool:
        if op.name in self._arrays:
            return True
        return self._reader is not None and self._reader.has_tensor(_saved_name(op))

    def _value(self, name: str, kind: Any) -> Any:
        if name in self._arrays:
            return as_typed(self._arrays[name], kind)
        return self._reader.get_tensor(_saved_name(self._graph.get_operation_by_name(name)))

    def _why_not(self, op: str) -> str:
        """Why *op* may not prepare anything: what it needs reaches outside; or empty."""
        if not op or not self._outside:
            return ""
        before = needed([self._graph.get_operation_by_name(op)], self._fed)
        return next((self._outside[e.name] for e in before if e.name in self._outside), "")

    def _check(self, without: Iterable[Any], reasons: Mapping[str, str]) -> None:
        names = [op.name for op in without]
        if names:
            more = f" and {len(names) - 1} others" if len(names) > 1 else ""
            reason = reasons.get(names[0])
            why = f": {reason}" if reason else ""
            raise ExecutionError(
                f"nothing says the value of variable {names[0]!r}{more}{why}",
                hint="--checkpoint PREFIX or --variables DIR says where the values are",
            )

    def _tables(self, used: set[Any]) -> Iterator[str]:
        for op in self._graph.get_operations():
            if op.type.startswith(_TABLES) and op.inputs[0].op in used:
                yield op.name

    def _iterators(self, used: set[Any]) -> Iterator[str]:
        """What starts each iterator; of several ways the first of the file."""
        started: set[Any] = set()
        for op in self._graph.get_operations():
            if op.type == "MakeIterator":
                iterator = op.inputs[1].op
                if iterator in used and iterator not in started:
                    started.add(iterator)
                    yield op.name


def _reader(prefix: str) -> Any:
    if not prefix:
        return None
    if not is_checkpoint(prefix):
        raise InputError(
            "no checkpoint has this prefix",
            where=prefix,
            hint="the prefix is the path of the .index file without .index",
        )
    with tensorflow_told("the checkpoint cannot be read", prefix):
        return tensorflow().train.load_checkpoint(prefix)


def _saved_name(op: Any) -> str:
    shared = op.get_attr("shared_name").decode() if op.type in HANDLES else ""
    return shared or str(op.name)


def _restore_op(graph: Any, meta: Any) -> tuple[str, str]:
    """The op that restores a checkpoint, and the tensor that takes its prefix."""
    saver = meta.saver_def
    names = {op.name for op in graph.get_operations()}
    if saver.restore_op_name in names and saver.filename_tensor_name:
        return saver.restore_op_name, saver.filename_tensor_name
    return "", ""


def _assign(graph: Any, variable: Any) -> tuple[Any, Any]:
    """A placeholder, and the op that gives *variable* its value."""
    tf = tensorflow()
    handle = variable.outputs[0]
    with graph.as_default():
        if variable.type in HANDLES:
            kind = variable.get_attr("dtype")
            placeholder = tf.compat.v1.placeholder(kind)
            return placeholder, tf.raw_ops.AssignVariableOp(resource=handle, value=placeholder)
        placeholder = tf.compat.v1.placeholder(handle.dtype.base_dtype)
        assign = tf.raw_ops.Assign(ref=handle, value=placeholder, validate_shape=False)
        return placeholder, assign.op


def _asks(graph: Any, variable: Any) -> Any:
    """What says whether *variable* has a value."""
    tf = tensorflow()
    handle = variable.outputs[0]
    with graph.as_default():
        if variable.type in HANDLES:
            return tf.raw_ops.VarIsInitializedOp(resource=handle)
        return tf.raw_ops.IsVariableInitialized(ref=handle)


def _main_ops(graph: Any, meta: Any) -> Iterator[str]:
    names = {op.name for op in graph.get_operations()}
    for key in _MAIN:
        if key in meta.collection_def:
            yield from (n for n in meta.collection_def[key].node_list.value if n in names)
    signature = meta.signature_def.get("__saved_model_init_op")
    for info in signature.outputs.values() if signature else ():
        if info.name.partition(":")[0] in names:
            yield info.name.partition(":")[0]


def own_paths(meta: Any) -> frozenset[str]:
    """The tensors that are fed with paths to prepare a session: of a checkpoint, of assets."""
    checkpoint = meta.saver_def.filename_tensor_name
    return frozenset(filter(None, (checkpoint, *_assets(meta, ""))))


def _assets(meta: Any, checkpoint: str) -> dict[str, str]:
    """The files beside a SavedModel by the tensor that takes their path."""
    message = import_module("tensorflow.core.protobuf.meta_graph_pb2").AssetFileDef
    files: dict[str, str] = {}
    folder = Path(checkpoint).parent.parent / "assets"
    assets = [*meta.asset_file_def]
    if "saved_model_assets" in meta.collection_def:
        packed = meta.collection_def["saved_model_assets"].any_list.value
        assets += [message.FromString(asset.value) for asset in packed]
    for asset in assets:
        # A name with a folder in it would leave the model's own one.
        files[asset.tensor_info.name] = str(folder / Path(asset.filename).name)
    return files
