"""Whether two jobs are split otherwise over their ranks, as their calls, weights and data show.

A rank of a job with tensor parallelism holds parts of weights, one with data parallelism a part of
the batch, one of a pipeline a part of the layers. What such a rank makes is a part, or one addend,
of what a single rank makes, though the shapes may agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from divergraph.graphs.arrivals import COLLECTIVE, GROUP, rank_folders
from divergraph.graphs.lineage.recorded_calls import plain_name
from divergraph.text.words import counted, shape_text
from divergraph.thresholds.recorded.call_pairs import CallPairs
from graphstore.model import Comparison, DType, Level, ModelGraph, Op, Reason, Shape, Tensor
from importers.msprobe.calls import INFERRED
from importers.msprobe.collectives import JOINED
from importers.msprobe.job_names import RANKS, split_rank

_TO_ONE = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
_FUNCTION = "Functional"
"""Without modules in the dump, weights are what such functions take after their first input."""
_INTEGERS = frozenset({DType.INT32, DType.INT64})
_WRAPPERS = ("Module.module.", "Cell.module.")


@dataclass
class _Parts:
    """Tensors of the one side that are parts of the other's, by their names, with both shapes."""

    weights: list[tuple[str, Shape, Shape]] = field(default_factory=list)
    data: list[tuple[str, Shape, Shape]] = field(default_factory=list)


def layout_difference(pairs: CallPairs) -> str:
    """How the two jobs are split otherwise, as a sentence that says what to do; empty if both are
    split alike, or nothing shows otherwise."""
    parts = _parts(pairs)
    sides = pairs.device, pairs.golden
    ours, theirs = (_collectives(graph) for graph in sides)
    ranks = [_ranks(graph) for graph in sides]
    between = {kind for kind in _TO_ONE if (kind in ours) != (kind in theirs)}
    one_sided = bool(ours) != bool(theirs)
    groups = _groups(pairs) or _hidden(pairs)
    wrapped = _is_wrapped(sides[0]) != _is_wrapped(sides[1])
    unlike_ranks = ranks[0] != ranks[1]
    is_split_data = bool(parts.data) and (unlike_ranks or wrapped or bool(ours) or bool(theirs))
    if not (parts.weights or between or groups or is_split_data or (one_sided and unlike_ranks)):
        return ""
    differences = [f"{counted(ranks[0], 'rank')} against {ranks[1]}"] if unlike_ranks else []
    differences += list(_of_parts(parts.weights, "weight"))
    for one, other, side, lacking in (
        (ours, theirs, "the device", "golden"),
        (theirs, ours, "golden", "the device"),
    ):
        if only := sorted(one - other):
            differences.append(f"{side} calls {', '.join(only)}, {lacking} does not")
    differences += [groups] if groups else []
    if is_split_data:
        differences += list(_of_parts(parts.data, "input"))
    return (
        f"the job is split otherwise over its ranks than golden's ({'; '.join(differences)}), "
        "so a tensor may be a part of golden's, or an addend: "
        "compare with a golden job of the same layout, or only what is whole on both sides"
    )


def model_difference(pairs: CallPairs) -> str:
    """That the two jobs are of different models: of most matrices of one name two axes differ, and
    are no multiples, which no layout makes; "" where it is not so."""
    theirs = {_of_any_rank(name): shape for name, shape in _matrices(pairs.golden)}
    named = [
        (name, shape, theirs[_of_any_rank(name)])
        for name, shape in _matrices(pairs.device)
        if _of_any_rank(name) in theirs
    ]
    unlike = [one for one in named if _is_of_another_model(*one[1:])]
    if len(unlike) <= len(named) / 2:
        return ""
    name, own, golden = unlike[0]
    return (
        f"the sides are different models: {len(unlike)} of {len(named)} weights of the same name "
        f"have other sizes (first {_short(name)} {shape_text(own)} against {shape_text(golden)})"
    )


def _matrices(graph: ModelGraph) -> Iterator[tuple[str, Shape]]:
    for name, tensor in _parameters_by_name(graph).items():
        if tensor.shape and len(tensor.shape) > 1:
            yield name, tensor.shape


def _of_any_rank(name: str) -> str:
    return split_rank(name)[1]


def _is_of_another_model(one: Shape, other: Shape) -> bool:
    if len(one) != len(other) or _is_part(one, other):
        return False
    return sum(a != b for a, b in zip(one, other, strict=True)) > 1


def without_parts(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """*comparisons* of jobs that are split otherwise: what is not golden's is not compared."""
    return tuple(
        replace(
            item,
            metrics=None,
            figures=None,
            level=None,
            failed=(),
            limit="",
            reason=Reason.LAYOUT_UNSUPPORTED,
            detail="another part of the job, or an addend: it is split otherwise than golden's",
        )
        if item.level in (Level.WARN, Level.FAIL)
        else item
        for item in comparisons
    )


def _of_parts(parts: Sequence[tuple[str, Shape, Shape]], noun: str) -> Iterator[str]:
    if parts:
        name, own, golden = parts[0]
        are = "is a part" if len(parts) == 1 else "are parts"
        of = f"{name} {shape_text(own)} against {shape_text(golden)}"
        first = "" if len(parts) == 1 else "first "
        yield f"{counted(len(parts), noun)} {are} of the other side's ({first}{of})"


def _parts(pairs: CallPairs) -> _Parts:
    parts = _Parts()
    ours, theirs = (_parameters_by_name(graph) for graph in (pairs.device, pairs.golden))
    for name, tensor in ours.items():
        other = theirs.get(name)
        if other is not None and _is_part(tensor.shape, other.shape):
            assert tensor.shape is not None
            assert other.shape is not None
            parts.weights.append((_short(name), tensor.shape, other.shape))
    names = {name for name, _, _ in parts.weights}
    for op in pairs.device.ops:
        twin = pairs.twin(op.id)
        for own, golden in _read(op, twin, pairs):
            name = own.name
            if not _is_part(own.shape, golden.shape) or _short(name) in names:
                continue
            names.add(_short(name))
            assert own.shape is not None
            assert golden.shape is not None
            if own.dtype in _INTEGERS or op is pairs.device.ops[0]:
                parts.data.append((name, own.shape, golden.shape))
            elif not ours and op.attrs.get("kind") == _FUNCTION and not name.endswith("input.0"):
                parts.weights.append((name, own.shape, golden.shape))
    return parts


def _parameters_by_name(graph: ModelGraph) -> dict[str, Tensor]:
    """The parameters by name, without the wrappers around the model."""
    return {plain_name(constant.tensor.name): constant.tensor for constant in graph.constants}


def _short(name: str) -> str:
    module, _, parameter = name.partition(".parameters.")
    return f"{module.partition('.forward')[0]} {parameter}" if parameter else name


def _read(op: Op, twin: Op | None, pairs: CallPairs) -> Iterator[tuple[Tensor, Tensor]]:
    """What both calls read that no recorded call made."""
    if twin is None or op.attrs.get("direction") == "backward":
        return
    for ref in op.inputs:
        if ref is None or ref.producer is not None or not ref.tensor.startswith(op.name):
            continue
        own = pairs.given.get(ref.tensor)
        golden = pairs.golden_given.get(twin.name + ref.tensor.removeprefix(op.name))
        if own is not None and golden is not None:
            yield own, golden


def _is_part(one: Shape | None, other: Shape | None) -> bool:
    """Whether the shapes differ in axes that are several times as long on either side."""
    if one is None or other is None or len(one) != len(other) or one == other:
        return False
    pairs = [(a or 0, b or 0) for a, b in zip(one, other, strict=True) if a != b]
    return all(a and b and (a % b == 0 or b % a == 0) for a, b in pairs)


def _collectives(graph: ModelGraph) -> set[str]:
    return {op.type.removeprefix(JOINED) for op in graph.ops if op.attrs.get("kind") == COLLECTIVE}


def _groups(pairs: CallPairs) -> str:
    for op in pairs.device.ops:
        twin = pairs.twin(op.id)
        ours = op.attrs.get(GROUP)
        theirs = twin.attrs.get(GROUP) if twin is not None else None
        if isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) != len(theirs):
            return f"{op.name} is among {len(ours)} ranks, golden's among {len(theirs)}"
    return ""


def _hidden(pairs: CallPairs) -> str:
    """Which side reduces gradients below its dump where the other one calls reductions."""
    ours, theirs = (
        {INFERRED in op.attrs for op in graph.ops if op.attrs.get("kind") == COLLECTIVE}
        for graph in (pairs.device, pairs.golden)
    )
    if ours == theirs or not ours or not theirs:
        return ""
    side, other = ("the device", "golden") if True in ours else ("golden", "the device")
    return f"{side} has gradients reduced by a wrapper, {other} calls reductions"


def _ranks(graph: ModelGraph) -> int:
    """The ranks of the job: those it joins, that its collective calls name, or that were dumped
    beside."""
    if isinstance(joined := graph.attrs.get(RANKS), tuple):
        return len(joined)
    named = {
        rank
        for op in graph.ops
        if isinstance(group := op.attrs.get(GROUP), tuple)
        for rank in group
    }
    return max(len(named), len(rank_folders(graph)), 1)


def _is_wrapped(graph: ModelGraph) -> bool:
    return any(op.name.startswith(_WRAPPERS) for op in graph.ops)
