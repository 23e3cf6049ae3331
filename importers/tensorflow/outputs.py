"""How many outputs a TensorFlow op has, and of which types.

A MetaGraphDef carries the definitions of its ops; a bare GraphDef does not. For these the
table below says what matters: ops with several outputs and ops whose output type is not
their attribute ``T`` or ``dtype`` (source: the op definitions of TensorFlow,
tensorflow/core/ops/*.cc, and its public API reference).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from importers.protos import tf_graph_pb2 as pb


@dataclass(frozen=True, slots=True)
class OutputArg:
    """One declared output: of a fixed ``dtype``, or of the type in the attribute ``type``.

    ``count`` names the attribute with the number of such outputs; ``types`` one that lists
    a type for each. ``default`` is the type if the attribute is not there.
    """

    dtype: int = 0
    type: str = ""
    count: str = ""
    types: str = ""
    default: int = 0


# One line an op: `Op: output output ...`. An output is a type attribute (`T`), one with a
# default (`out_type=INT32`), a fixed type (`INT32`), a counted one (`num*T`) or a list of
# types (`@component_types`).
_TABLE = """
ArgMax ArgMin: output_type=INT64
Assert NoOp Save SaveV2 MergeV2Checkpoints Stage MapStage MakeIterator: -
AssignVariableOp AssignAddVariableOp AssignSubVariableOp: -
QueueEnqueue QueueEnqueueV2 QueueEnqueueMany QueueEnqueueManyV2 QueueClose QueueCloseV2: -
InitializeTable InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2: -
LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2: -
BroadcastGradientArgs: T T
Cast: DstT
Bitcast: type
Bucketize: INT32
CTCGreedyDecoder: INT64 INT64 INT64 T
CTCLoss: T T
ComplexAbs Real Imag Angle: Tout=FLOAT
Complex: Tout=COMPLEX64
ConcatOffset: N*shape_type=INT32
CudnnRNN: T T T T
CudnnRNNV2: T T T T INT8
CudnnRNNV3: T T T T INT8
CropAndResize: FLOAT
DecodeJpeg DecodePng DecodeGif DecodeBmp DecodeImage: dtype=UINT8
DecodeRaw: out_type
DenseToDenseSetOperation SparseToSparseSetOperation: INT64 T INT64
DynamicPartition: num_partitions*T
Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual: BOOL
LogicalAnd LogicalOr LogicalNot All Any IsNan IsInf IsFinite LoopCond: BOOL
ExtractGlimpse: FLOAT
FractionalAvgPool FractionalMaxPool: T INT64 INT64
FusedBatchNorm: T T T T T
FusedBatchNormV2: T U U U U
FusedBatchNormV3: T U U U U U
FusedBatchNormGrad: T T T T T
FusedBatchNormGradV2 FusedBatchNormGradV3: T U U U U
GRUBlockCell: T T T T
LSTMBlockCell: T T T T T T T
BlockLSTM BlockLSTMV2: T T T T T T T
BlockLSTMGrad BlockLSTMGradV2: T T T T T T T T
GenerateVocabRemapping: INT64 INT32
IdentityN: @T
If StatelessIf Case StatelessCase: @Tout
While StatelessWhile: @T
PartitionedCall StatefulPartitionedCall TPUPartitionedCall: @Tout
InTopK InTopKV2: BOOL
IteratorGetNext IteratorGetNextSync DatasetToSingleElement: @output_types
IteratorV2 Iterator OneShotIterator: RESOURCE
ListDiff SetDiff1D: T out_idx=INT32
LookupTableExportV2: Tkeys Tvalues
LookupTableFindV2 LookupTableFind: Tout
LookupTableSizeV2: INT64
LogUniformCandidateSampler UniformCandidateSampler LearnedUnigramCandidateSampler: INT64 FLOAT FLOAT
LogMatrixDeterminant: T T
MaxPoolWithArgmax: T Targmax=INT64
Merge RefMerge: T INT32
MultiDeviceIteratorGetNextFromShard: @output_types
NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionWithOverlaps: INT32
NonMaxSuppressionV4: INT32 INT32
NonMaxSuppressionV5: INT32 T INT32
CombinedNonMaxSuppression: FLOAT FLOAT FLOAT INT32
ParseExample: Nsparse*INT64 @sparse_types Nsparse*INT64 @Tdense
ParseSingleExample: num_sparse*INT64 @sparse_types num_sparse*INT64 @Tdense
DecodeCSV: @OUT_TYPE
PyFunc PyFuncStateless EagerPyFunc: @Tout
Qr SelfAdjointEigV2: T T
Svd: T T T
Lu: T output_idx_type=INT32
QuantizeV2 Quantize: T FLOAT FLOAT
QuantizedMatMul QuantizedAdd QuantizedMul: Toutput FLOAT FLOAT
QuantizedBiasAdd Requantize RequantizePerChannel QuantizeDownAndShrinkRange: out_type FLOAT FLOAT
QuantizedConv2D QuantizedConv2DPerChannel QuantizedDepthwiseConv2D: out_type FLOAT FLOAT
QuantizedRelu QuantizedRelu6: out_type FLOAT FLOAT
QuantizedConcat QuantizedMaxPool QuantizedAvgPool QuantizedReshape: T FLOAT FLOAT
RequantizationRange: FLOAT FLOAT
QuantizeAndDequantizeV4Grad: T T T
QueueDequeue QueueDequeueV2 QueueDequeueMany QueueDequeueManyV2: @component_types
QueueDequeueUpTo QueueDequeueUpToV2: @component_types
Unstage StagePeek MapUnstage MapPeek: @dtypes
MapUnstageNoKey: INT64 @dtypes
QueueSize QueueSizeV2 StackSize: INT32
Rank Size: out_type=INT32
ReadVariableOp VariableV2 Variable VarHandleOp Placeholder PlaceholderV2: dtype
ReaderRead ReaderReadV2: STRING STRING
ReaderReadUpTo ReaderReadUpToV2: STRING STRING
RestoreV2 RestoreSlice: @dtypes
Restore: dt
SampleDistortedBoundingBox SampleDistortedBoundingBoxV2: T T FLOAT
Shape: out_type=INT32
ShapeN: N*out_type=INT32
SoftmaxCrossEntropyWithLogits: T T
SparseSoftmaxCrossEntropyWithLogits: T T
SparseFillEmptyRows: INT64 T BOOL INT64
SparseFillEmptyRowsGrad: T T
SparseConcat SparseAdd SparseSlice: INT64 T INT64
SparseReorder: INT64 T
SparseReshape: INT64 INT64
SparseSplit: num_split*INT64 num_split*T num_split*INT64
DeserializeManySparse DeserializeSparse TakeManySparseFromTensorsMap: INT64 dtype INT64
Split SplitV: num_split*T
StringSplit StringSplitV2: INT64 STRING INT64
StringToNumber: out_type=FLOAT
Switch RefSwitch: T T
_SwitchN: num_outs*T
TensorArrayV3 TensorArrayGradV3 TensorArrayGradWithShape: RESOURCE FLOAT
TensorArrayConcatV3 TensorArrayConcatV2: dtype INT64
TensorArrayReadV3 TensorArrayGatherV3: dtype
TensorArraySizeV3: INT32
TensorArrayWriteV3 TensorArrayScatterV3 TensorArraySplitV3: FLOAT
TensorListPopBack: VARIANT element_dtype
TensorListGetItem TensorListStack TensorListGather: element_dtype
TensorListConcat TensorListConcatV2: element_dtype INT64
TensorListFromTensor TensorListReserve TensorListPushBack TensorListSetItem EmptyTensorList: VARIANT
TensorListLength: INT32
TopK TopKV2: T index_type=INT32
Unpack: num*T
Unique UniqueV2: T out_idx=INT32
UniqueWithCounts UniqueWithCountsV2: T out_idx=INT32 out_idx=INT32
Where: INT64
"""
_NAMED_TYPES = {
    name: getattr(pb, f"DT_{name}")
    for name in (
        "BOOL",
        "COMPLEX64",
        "FLOAT",
        "INT32",
        "INT64",
        "INT8",
        "RESOURCE",
        "STRING",
        "UINT8",
        "VARIANT",
    )
}


def _parsed(word: str) -> OutputArg:
    if word.startswith("@"):
        return OutputArg(types=word[1:])
    count, _, rest = word.rpartition("*")
    name, _, default = rest.partition("=")
    if name in _NAMED_TYPES:
        return OutputArg(dtype=_NAMED_TYPES[name], count=count)
    return OutputArg(type=name, count=count, default=_NAMED_TYPES[default] if default else 0)


def _table() -> dict[str, tuple[OutputArg, ...]]:
    table: dict[str, tuple[OutputArg, ...]] = {}
    for line in _TABLE.strip().splitlines():
        ops, _, outputs = line.partition(":")
        args = tuple(_parsed(word) for word in outputs.split() if word != "-")
        table.update(dict.fromkeys(ops.split(), args))
    return table


KNOWN: Mapping[str, tuple[OutputArg, ...]] = _table()
"""Declared outputs by op; an op that is not here has one, of its usual type attribute."""

_WITHOUT_OUTPUT = ("ResourceApply", "ResourceSparseApply", "ResourceScatter")


def known_outputs(op: str) -> tuple[OutputArg, ...] | None:
    """What the table says of *op*; None if nothing."""
    return () if op.startswith(_WITHOUT_OUTPUT) else KNOWN.get(op)


_USUAL = ("dtype", "T", "DstT", "out_type", "output_type", "Tout", "element_dtype", "Tparams")


def declared(ops: pb.OpList) -> dict[str, tuple[OutputArg, ...]]:
    """The outputs of the ops a MetaGraphDef defines, stronger than the table."""
    return {op.name: _declared_outputs(op) for op in ops.op}


def _declared_outputs(op: pb.OpDef) -> tuple[OutputArg, ...]:
    defaults = {attr.name: attr.default_value.type for attr in op.attr}
    return tuple(
        OutputArg(
            dtype=arg.type,
            type=arg.type_attr,
            count=arg.number_attr,
            types=arg.type_list_attr,
            default=defaults.get(arg.type_attr, 0),
        )
        for arg in op.output_arg
    )


def output_types(node: pb.NodeDef, args: tuple[OutputArg, ...] | None, most: int) -> list[int]:
    """The type number of each output of *node*, 0 where unknown; at most *most* of them."""
    if args is None:
        found = (node.attr[name].type for name in _USUAL if name in node.attr)
        return [next((number for number in found if number), 0)]
    types: list[int] = []
    for arg in args:
        if arg.types:
            types += node.attr[arg.types].list.type if arg.types in node.attr else []
            continue
        count = _number(node, arg.count) if arg.count else 1
        dtype = arg.dtype or _attr_type(node, arg.type) or arg.default
        types += [dtype] * min(count, most)
    return types[:most]


def _number(node: pb.NodeDef, attr: str) -> int:
    return max(node.attr[attr].i, 0) if attr in node.attr else 1


def _attr_type(node: pb.NodeDef, attr: str) -> int:
    return node.attr[attr].type if attr in node.attr else 0
