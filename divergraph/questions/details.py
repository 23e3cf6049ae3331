"""One op in full: tensors, lineage, and one sentence about its state."""

from __future__ import annotations

from collections.abc import Iterable

from divergraph.analysis.verdicts import worst
from divergraph.questions.answers import OpDetail, TensorRow
from divergraph.questions.facts import Facts, load_facts, resolve_op
from divergraph.questions.rows import rows_of
from graphstore.contract import GraphStore
from graphstore.errors import UnknownNameError
from graphstore.model import (
    Comparison,
    LineageLink,
    LineageRule,
    Metric,
    Op,
    OpState,
    Side,
    TensorIO,
    TensorRef,
)
from graphstore.op_row import OpRow


def op_detail(store: GraphStore, target: str, op: str, side: Side = Side.DEVICE) -> OpDetail:
    """Everything about *op* of a run or imported graph.

    Raises:
        UnknownNameError: no such run, graph or op.
    """
    facts = load_facts(store, target, side)
    op_id = resolve_op(facts, op)
    value = facts.ops[op_id]
    row = rows_of(facts)[facts.arrays.number[op_id]]
    compared = {(item.io, item.port): item for item in facts.comparisons if item.op == op_id}
    return OpDetail(
        row,
        value.attrs,
        tuple(_inputs(facts, value, compared)),
        tuple(_outputs(facts, value, compared)),
        value.control_inputs,
        tuple(facts.links.get(op_id, ())),
        _explain(facts, row),
    )


def lineage(store: GraphStore, run: str, op: str) -> tuple[LineageLink, ...]:
    """The links of *op*, a device op or else a golden op of this name.

    In an imported graph they are what its attributes say, golden ops by name.

    Raises:
        UnknownNameError: no such run or graph, or neither side has the op.
    """
    device = load_facts(store, run)
    if device.run is None:
        return _named_originals(device, op)
    golden = load_facts(store, run, Side.GOLDEN)
    try:
        links = device.links.get(resolve_op(device, op), [])
        also = golden.links.get(op, [])
    except UnknownNameError as error:
        try:
            return tuple(golden.links.get(resolve_op(golden, op), ()))
        except UnknownNameError:
            raise error from None
    return tuple(dict.fromkeys([*links, *also]))


def _named_originals(facts: Facts, name: str) -> tuple[LineageLink, ...]:
    links = [
        LineageLink(op.id, original, LineageRule.ORIGINAL_NAMES)
        for op in facts.graph.ops
        for original in op.original_names or ()
    ]
    named = tuple(link for link in links if name in (link.device, link.original))
    if not named:
        resolve_op(facts, name)
    return named


def _inputs(
    facts: Facts, op: Op, compared: dict[tuple[TensorIO, int], Comparison]
) -> Iterable[TensorRow]:
    for port, ref in enumerate(op.inputs):
        own = compared.get((TensorIO.INPUT, port))
        if ref is None:
            yield TensorRow(port, "", None, (), None, None, None, own)
            continue
        source = None if ref.producer is None else facts.ops.get(ref.producer.op)
        if source is None or ref.producer is None or ref.producer.port >= len(source.outputs):
            yield TensorRow(port, ref.tensor, ref.producer, (), None, None, None, own)
            continue
        tensor = source.outputs[ref.producer.port]
        comparison = own or _output_of(facts, ref.producer)
        yield TensorRow(
            port,
            ref.tensor,
            ref.producer,
            (),
            tensor.dtype,
            tensor.shape,
            tensor.layout,
            comparison,
        )


def _output_of(facts: Facts, ref: TensorRef) -> Comparison | None:
    items = facts.outputs.get(ref.op, ())
    return next((item for item in items if item.port == ref.port), None)


def _outputs(
    facts: Facts, op: Op, compared: dict[tuple[TensorIO, int], Comparison]
) -> Iterable[TensorRow]:
    readers: dict[int, list[str]] = {}
    number = facts.arrays.number[op.id]
    start, end = facts.arrays.successor_start[number : number + 2]
    for other in facts.arrays.successor_ops[start:end]:
        reader = facts.ops[facts.arrays.ids[other]]
        for ref in reader.inputs:
            if ref is not None and ref.producer is not None and ref.producer.op == op.id:
                names = readers.setdefault(ref.producer.port, [])
                if reader.id not in names:
                    names.append(reader.id)
    for port, tensor in enumerate(op.outputs):
        yield TensorRow(
            port,
            tensor.name,
            None,
            tuple(readers.get(port, ())),
            tensor.dtype,
            tensor.shape,
            tensor.layout,
            compared.get((TensorIO.OUTPUT, port)),
        )


def _explain(facts: Facts, row: OpRow) -> str:
    item = worst(facts.outputs.get(row.id, ()))
    if row.state is None:
        return ""
    if row.state is OpState.NOT_COMPARED or item is None or item.metrics is None:
        return f"not compared: {row.detail or row.reason or 'no output'}"
    broken = ", ".join(_limit_text(facts, metric, item) for metric in item.failed)
    if row.state is OpState.ORIGIN:
        return f"{broken}; the nearest measured ops before it are within their limits"
    if row.state is OpState.BROKEN:
        return f"NaN or Inf the golden side does not have, after {_names(row.origins)}"
    if row.state is OpState.INHERITED:
        return f"{broken}; inherited from {_names(row.origins)}"
    if row.state is OpState.DRIFTING:
        return "within the limits, past a warning level"
    return "within every limit"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _limit_text(facts: Facts, metric: Metric, item: Comparison) -> str:
    assert item.metrics is not None
    value = item.metrics.value(metric)
    limit = None if facts.run is None else facts.run.thresholds.get(metric.value)
    if isinstance(value, tuple) or limit is None:
        return metric.value
    sign = "<" if metric is Metric.COSINE_SIMILARITY else ">"
    return f"{metric.value} {value:.6g} {sign} {limit:g}"
