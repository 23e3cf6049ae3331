"""Which ops of a graph are exported with a part because they give the same in every run. Ops that
draw numbers or fetch data have no inputs either, but their dumped outputs are fed to the part:
another run would give something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from divergraph.execute.contract import Array
from divergraph.graphs.matching.constants import settled_ops
from graphstore.model import Framework, InputRef, ModelGraph, Op, TensorRef

VARIABLES = frozenset({"Variable", "VariableV2", "TemporaryVariable", "VarHandleOp"})
READS = "ReadVariableOp"
_FED = frozenset(
    (
        *("Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "Input", "Feed", "_Arg"),
        *("Data", "AippData", "RefData", "QueueData"),
    )
)
_FETCHES = (
    *("Iterator", "OneShotIterator", "Queue", "Reader", "GetNext", "DynamicGetNext"),
    *("MemoryData", "ImageData", "HDF5Data"),
)
_PLACE = "PlaceHolder"
"""GE's op for what another engine makes, which its attribute tells."""
_DRAWS = ("Random", "Stateless", "TruncatedNormal", "ParameterizedTruncatedNormal", "DummyData")


def feeds_the_model(op: Op) -> bool:
    """Whether an op only stands for an input of the model, or fetches one."""
    return (not op.inputs and stands_for_an_input(op)) or fetches(op.type)


def stands_for_an_input(op: Op) -> bool:
    """Whether an op is of those that stand for an input of the model."""
    made_by = str(op.attrs.get("parentOpType", ""))
    return op.type in _FED or (op.type == _PLACE and not made_by.startswith("Const"))


def may_be_fed(kind: str) -> bool:
    """Whether ops of this type may stand for an input of the model."""
    return kind in _FED or kind == _PLACE


def fetches(kind: str) -> bool:
    """Whether ops of this type fetch data."""
    return kind.startswith(_FETCHES)


def is_another_each_run(kind: str) -> bool:
    """Whether ops of this type draw numbers or fetch data."""
    drawn = kind.startswith(_DRAWS) and not kind.startswith(("StatelessIf", "StatelessWhile"))
    return drawn or fetches(kind)


def constant_ops(graph: ModelGraph) -> frozenset[str]:
    """Ids of the ops whose values follow from constants and variables alone.

    In bodies those of TensorFlow's functions, which hold constants as ops.
    """
    fed = {tensor.name for tensor in graph.inputs}
    initializers = {constant.tensor.name for constant in graph.constants}
    inner = graph.framework is Framework.TENSORFLOW

    def taken(op: Op) -> list[InputRef] | None:
        if (
            op.owns
            or stands_for_an_input(op)
            or is_another_each_run(op.type)
            or (op.subgraph and not inner)
        ):
            return None
        if op.type == READS:
            return []
        refs = [ref for ref in op.inputs if ref is not None]
        unmade = [ref.tensor for ref in refs if ref.producer is None]
        if any(name in fed for name in unmade):
            return None
        if op.subgraph and any(name not in initializers for name in unmade):
            return None  # an argument of the body
        return refs

    return settled_ops(graph.ops, taken)


def values_of_the_run(
    ops: Mapping[str, Op], chosen: Iterable[str], value: Callable[[TensorRef], Array | None]
) -> dict[str, Array]:
    """By tensor name the values of *chosen* ops that are in no model file: variables, reads of
    them, random numbers. *value* gives the dumped value of a tensor."""
    values: dict[str, Array] = {}
    for op in map(ops.__getitem__, chosen):
        first = op.source()
        maker = None if first is None else ops.get(first.op)
        of_variable = maker is not None and maker.type in VARIABLES
        reads = op.type == READS or (op.type == "Identity" and of_variable)
        if not (reads or op.type in VARIABLES or is_another_each_run(op.type)):
            continue
        for ref, tensor in zip(op.makes, op.outputs, strict=True):
            array = value(ref)
            if array is not None:
                values[tensor.name] = array
                if reads and maker is not None and maker.outputs:
                    values.setdefault(maker.outputs[0].name, array)
    return values
