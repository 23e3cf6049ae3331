"""Which TensorFlow ops may run: a model is a program, and a stranger's must not reach outside.

TensorFlow's own registry decides. Ops it calls stateless compute from their inputs and do nothing
else, but for the few listed here; of the others those may run that work on the memory of the
session: variables, random numbers, control flow, tables, iterators. Whatever is neither, also of
a TensorFlow newer than this list, reaches outside.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from divergraph.execute.tensorflow.files import SEEDED
from divergraph.execute.tensorflow.variable_ops import HANDLES, READS, VARIABLES, changes_resource

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
