"""What of a model reaches outside, taken out of its graph before TensorFlow sees it.

TensorFlow computes constant parts already while it reads a graph, to learn shapes; so an op that
may not run must not even be imported. In its place stands one that gives nothing: a placeholder
nobody feeds, or, if it had no outputs, an op that does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from divergraph.execute.tensorflow.branches import HANDLES, READS, VARIABLES, changes_resource
from divergraph.execute.tensorflow.calls_in_place import CALLS
from divergraph.execute.tensorflow.files import SEEDED
from divergraph.execute.tensorflow.step import called_functions, waits
from graphstore.traverse.reach import reached

# Which ops may run: a model is a program, and a stranger's must not reach outside. TensorFlow's
# own registry decides. Ops it calls stateless compute from their inputs and do nothing else, but
# for the few listed here; of the others those may run that work on the memory of the session:
# variables, random numbers, control flow, tables, iterators. Whatever is neither, also of a
# TensorFlow newer than this list, reaches outside.
_STATELESS_BUT_REACHING = frozenset(
    (
        "MatchingFiles",  # lists folders
        *("ImmutableConst", "DecodeProtoV2", "EncodeProto"),  # open a file their attributes name
        *("Copy", "CopyHost"),  # part of the debugger, which writes where it is told
        "DatasetFromGraph",  # runs a graph that it is given as a text
        *("PyFuncStateless", "MlirPassthroughOp"),  # run what is no graph at all
        "Abort",  # ends the process
    )
)
_NAMES_A_PLACE = re.compile(r"file|path|url|address|(^|_)dir(_|$)")
"""Of texts an op takes, those named so say where to read, write or send."""

_VARIABLES = (
    *VARIABLES,
    *HANDLES,
    *(READS, "VariableShape", "VarIsInitializedOp", "ResourceGather", "ResourceGatherNd"),
    *("TemporaryVariable", "DestroyResourceOp", "DisableCopyOnRead"),
)
_RANDOM = (
    *SEEDED,
    *("StatefulRandomBinomial", "StatefulStandardNormal", "StatefulStandardNormalV2"),
    *("StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformFullInt"),
    *("StatefulUniformInt", "RngReadAndSkip", "RngSkip", "StatelessRandomGetAlg"),
    *("NonDeterministicInts", "AnonymousSeedGenerator", "AnonymousRandomSeedGenerator"),
    *("DummySeedGenerator", "DeleteSeedGenerator", "DeleteRandomSeedGenerator"),
)
_CONTROL_FLOW = (
    *("StatefulPartitionedCall", "If", "While", "Case", "DeviceIndex", "Assert"),
    *("CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "DeepCopy", "Empty"),
)
_TABLES = (
    *("HashTable", "HashTableV2", "AnonymousHashTable"),
    *("MutableHashTable", "MutableHashTableV2", "AnonymousMutableHashTable"),
    *("MutableHashTableOfTensors", "MutableHashTableOfTensorsV2"),
    *("AnonymousMutableHashTableOfTensors", "AnonymousMutableDenseHashTable"),
    *("MutableDenseHashTable", "MutableDenseHashTableV2"),
    *("InitializeTableV2", "InitializeTableFromDataset", "LookupTableExportV2"),
    *("LookupTableFindV2", "LookupTableImportV2", "LookupTableInsertV2"),
    *("LookupTableRemoveV2", "LookupTableSizeV2"),
    *("AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap"),
)
_LISTS = (
    *("Stack", "StackV2", "StackPushV2", "StackPopV2", "StackCloseV2"),
    *("TensorArray", "TensorArrayV2", "TensorArrayV3", "TensorArrayGrad", "TensorArrayGradV2"),
    *("TensorArrayGradV3", "TensorArrayGradWithShape", "TensorArrayCloseV3"),
    *("TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayReadV3"),
    *("TensorArrayScatterV3", "TensorArraySizeV3", "TensorArraySplitV3", "TensorArrayWriteV3"),
)
_ITERATORS = (
    *("Iterator", "IteratorV2", "OneShotIterator", "AnonymousIterator", "AnonymousIteratorV2"),
    *("AnonymousIteratorV3", "MakeIterator", "DeleteIterator", "IteratorGetNext"),
    *("IteratorGetNextSync", "IteratorGetNextAsOptional", "IteratorToStringHandle"),
    *("IteratorFromStringHandle", "IteratorFromStringHandleV2"),
    *("TensorDataset", "TensorSliceDataset", "SparseTensorSliceDataset", "RangeDataset"),
    *("ListDataset", "GeneratorDataset", "RandomDataset", "RandomDatasetV2"),
    *("ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDatasetV2"),
    *("GlobalShuffleDataset", "GroupByReducerDataset", "ReduceDataset", "DatasetToSingleElement"),
)
_IN_THE_SESSION = frozenset((*_VARIABLES, *_RANDOM, *_CONTROL_FLOW, *_TABLES, *_LISTS, *_ITERATORS))
_HANDLES_OF_OTHERS = ("Queue", "Reader", "Barrier", "Accumulator", "SparseAccumulator")
"""Old ops on what only others than those above make, which the registry calls stateless."""


@cache
def definition_of(kind: str) -> Any:
    """What the installed TensorFlow says of an op type; None if it has none."""
    return import_module("tensorflow.python.framework.op_def_registry").get(kind)


@cache
def may_run(kind: str) -> bool:
    """Whether ops of a type stay inside of the session; functions they call are not looked at."""
    definition = definition_of(kind)
    if definition is None or kind.startswith(_HANDLES_OF_OTHERS):
        return False
    if definition.is_stateful:
        return kind in _IN_THE_SESSION or changes_resource(kind)
    return kind not in _STATELESS_BUT_REACHING and not _names_a_place(definition)


def _names_a_place(definition: Any) -> bool:
    string = import_module("tensorflow.core.framework.types_pb2").DT_STRING
    names = [arg.name for arg in definition.input_arg if arg.type == string]
    names += [attr.name for attr in definition.attr if attr.type in ("string", "list(string)")]
    return any(map(_NAMES_A_PLACE.search, names))


_READS_A_FILE = {
    "Restore": 0,
    "RestoreSlice": 0,
    "RestoreV2": 0,
    "InitializeTableFromTextFile": 1,
    "InitializeTableFromTextFileV2": 1,
}
"""Ops that read a file, which may be the user's checkpoint or beside the model: the input that
takes its path."""
_ASKS_FOR_PATHS = frozenset(("Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault"))
_FILLS = {
    "MakeIterator": 1,
    **dict.fromkeys(("InitializeTable", "InitializeTableV2", "InitializeTableFromDataset"), 0),
    **dict.fromkeys(("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"), 0),
    **dict.fromkeys(("LookupTableImport", "LookupTableImportV2"), 0),
}
"""Ops that fill an iterator or a table: which input it is."""
_MOST_OUTPUTS = 1 << 16


def keep_inside(definition: Any, paths: Collection[str]) -> dict[str, str]:
    """Take out of the GraphDef *definition* what reaches outside; says why, by name of the op.

    *paths* are the tensors that our own program feeds with paths of files: what reads those files
    stays, and nobody else says what they are. What needs what was taken out is left as it is.
    """
    functions = _Functions(definition)
    fed = _only_fed(definition, paths)
    _quieten(definition.node, functions)
    nodes = {node.name: node for node in definition.node}
    why = {
        name: reason for name, node in nodes.items() if (reason := functions.why(node, nodes, fed))
    }
    why |= _unfilled(nodes, why)
    for name in why:
        _empty(nodes[name], functions, definition, nodes.keys())
    return why


@dataclass(frozen=True, slots=True)
class _Body:
    """A function: why it may not run, or the arguments that have to be paths of ours."""

    why: str
    paths: frozenset[int] = frozenset()


class _Functions:
    """The functions of a graph, with what was found of each."""

    def __init__(self, definition: Any) -> None:
        self._all = {function.signature.name: function for function in definition.library.function}
        self._gradients = {
            gradient.function_name: gradient.gradient_func
            for gradient in definition.library.gradient
        }
        self._known = dict.fromkeys(self._all, _Body(""))
        for function in self._all.values():
            _quieten(function.node_def, self)
        again = True
        while again:  # what is found of one is found of those that call it
            again = False
            for name, function in self._all.items():
                judged = self._judged(function)
                again = again or judged != self._known[name]
                self._known[name] = judged

    def definition(self, name: str) -> Any:
        """The function of that name; None if there is none."""
        return self._all.get(name)

    def why(self, node: Any, nodes: Mapping[str, Any], fed: Collection[str]) -> str:
        """Why *node* of the graph may not run, or empty; *fed* holds the paths of ours."""
        reason, paths = self._needs(node)
        if reason:
            return reason
        sources = [_source(entry, nodes) for entry in _data(node)]
        if all(at < len(sources) and sources[at] in fed for at in paths):
            return ""
        return _sentence(node)

    def _needs(self, node: Any) -> tuple[str, Collection[int]]:
        """Why *node* may not run whatever it is given, and which inputs must be paths of ours."""
        if node.op in _READS_A_FILE:
            return "", (_READS_A_FILE[node.op],)
        # What TensorFlow has no op for it refuses itself, by name.
        if definition_of(node.op) is not None and not may_run(node.op):
            return waits(node.op) or _sentence(node), ()
        paths: set[int] = set()
        for name in self._called(node):
            body = self._known[name]
            if body.why:
                return body.why, ()
            if body.paths and node.op not in CALLS and node.op != name:
                return _sentence(node), ()
            paths |= body.paths
        return "", paths

    def _called(self, node: Any) -> Iterator[str]:
        for name in called_functions(node):
            if name in self._all:
                yield name
            if self._gradients.get(name) in self._all:
                yield self._gradients[name]

    def _judged(self, function: Any) -> _Body:
        args = {arg.name: at for at, arg in enumerate(function.signature.input_arg)}
        nodes = {node.name: node for node in function.node_def}
        paths: set[int] = set()
        for node in function.node_def:
            reason, needed = self._needs(node)
            sources = [_source(entry, nodes) for entry in _data(node)]
            if reason or not all(at < len(sources) and sources[at] in args for at in needed):
                return _Body(reason or _sentence(node))
            paths |= {args[sources[at]] for at in needed}
        return _Body("", frozenset(paths))


def _sentence(node: Any) -> str:
    return f"{node.name} ({node.op}) reaches outside of the model: it and what needs it are not run"


def _data(node: Any) -> list[str]:
    return [entry for entry in node.input if not entry.startswith("^")]


def _source(entry: str, nodes: Mapping[str, Any]) -> str:
    """The node or argument whose value *entry* is, unchanged."""
    seen: set[str] = set()
    name = entry.partition(":")[0]
    while name in nodes and nodes[name].op == "Identity" and name not in seen:
        seen.add(name)
        name = next(iter(_data(nodes[name])), "").partition(":")[0]
    return name


def _only_fed(definition: Any, paths: Collection[str]) -> frozenset[str]:
    """Make *paths* placeholders, so that what the model proposes is read by nothing."""
    names = {path.partition(":")[0] for path in paths}
    nodes = [node for node in definition.node if node.name in names and node.op in _ASKS_FOR_PATHS]
    for node in nodes:
        _placeholder(node, import_module("tensorflow.core.framework.types_pb2").DT_STRING)
    return frozenset(node.name for node in nodes)


def _quieten(nodes: Any, functions: _Functions) -> None:
    """What only prints hands its input on; what only acts outside does nothing."""
    for node in nodes:
        definition = definition_of(node.op)
        if functions.definition(node.op) is not None or definition is None:
            continue
        if node.op == "Print" and _data(node):
            entry, kind = _data(node)[0], node.attr["T"].type
            controls = [entry for entry in node.input if entry.startswith("^")]
            _become(node, "Identity", [entry, *controls])
            node.attr["T"].type = kind
        elif not definition.output_arg and not may_run(node.op) and node.op not in _READS_A_FILE:
            _become(node, "NoOp", [entry for entry in node.input if entry.startswith("^")])


def _unfilled(nodes: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, str]:
    """Iterators and tables that nothing fills, as what they should hold is not read, with why."""
    reasons: dict[str, str] = {}
    for node in nodes.values():
        data = [entry.partition(":")[0] for entry in _data(node)]
        at = _FILLS.get(node.op, len(data))
        if at < len(data) and data[at] in nodes:
            reason = why.get(node.name) or next(
                filter(None, (_reason_behind(entry, nodes, why) for entry in data)), ""
            )
            if reason:
                reasons[data[at]] = reason
    return reasons


def _reason_behind(start: str, nodes: Mapping[str, Any], why: Mapping[str, str]) -> str:
    def before(name: str) -> Iterator[str]:
        return (entry.partition(":")[0] for entry in (_data(nodes[name]) if name in nodes else ()))

    return next((why[name] for name in reached([start], before) if name in why), "")


def _empty(node: Any, functions: _Functions, definition: Any, names: Collection[str]) -> None:
    """Make *node* give nothing, with the outputs it had."""
    function = functions.definition(node.op)
    signature = definition_of(node.op) if function is None else function.signature
    kinds = list(_output_types(node, signature)) if signature is not None else []
    if len(kinds) == 1:
        _placeholder(node, kinds[0])
        return
    inputs: list[str] = []
    for at, kind in enumerate(kinds):
        name = f"{node.name}/not_run_{at}"
        while name in names:
            name += "_"
        nothing = definition.node.add()
        nothing.name = name
        _placeholder(nothing, kind)
        inputs.append(name)
    _become(node, "IdentityN" if kinds else "NoOp", inputs)
    if kinds:
        node.attr["T"].list.type.extend(kinds)


def _output_types(node: Any, signature: Any) -> Iterator[int]:
    defaults = {attr.name: attr.default_value for attr in signature.attr}

    def given(name: str) -> Any:
        return node.attr[name] if name in node.attr or name not in defaults else defaults[name]

    for arg in signature.output_arg:
        if arg.type_list_attr:
            yield from given(arg.type_list_attr).list.type
            continue
        kind = arg.type or given(arg.type_attr).type
        times = given(arg.number_attr).i if arg.number_attr else 1
        yield from [kind] * min(times, _MOST_OUTPUTS)


def _placeholder(node: Any, kind: int) -> None:
    _become(node, "Placeholder", [])
    node.attr["dtype"].type = kind
    node.attr["shape"].shape.unknown_rank = True


def _become(node: Any, op: str, inputs: list[str]) -> None:
    name = node.name
    node.Clear()
    node.name, node.op = name, op
    node.input.extend(inputs)
