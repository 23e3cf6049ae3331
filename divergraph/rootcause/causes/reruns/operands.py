"""Other values of operands: the op is run with each, to see which gives what the device has.

Sums cut short, gates of recurrent ops in another framework's order, a state or parameter that was
ignored, indices off by one. The trials of a batch are run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, permutations

import numpy as np

from divergraph.rootcause.causes.evidence import Array, Cause, SampledTensors, Trial
from divergraph.rootcause.causes.limits import LEFT
from divergraph.rootcause.causes.words import axes_text
from graphstore.model import Op

LARGEST = 1 << 22
"""Elements of the largest operand or output for which ops are run many times. Bounds cost, as do
the next four."""
_AT_ONCE, _MOST_AT_ONCE = 1 << 23, 24
"""Elements the trials of a batch may hold together, and how many trials there may be."""
_ALTOGETHER = 1 << 27
"""Elements the trials of one kind may hold in all."""
_PROMISING = 0.85
"""The share of the error that the best of a few counts may leave for more to be tried."""
_PLACES, _ROUNDS = 8, 6
"""Counts tried in a round of a search, and rounds."""
_TELLING = 4
"""Fewer outputs than this are explained by some count of products left out, whatever is wrong."""
_WIDEST = 7
"""The longest axis of a window whose places are tried one by one."""
_GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3}
_SUMMED: Mapping[str, int] = {
    **dict.fromkeys(("Conv", "conv1d", "conv2d", "conv3d", "linear", "dense", "Linear"), 1),
    **dict.fromkeys(("MatMul", "matmul", "bmm", "mm", "__matmul__"), -2),
    "ConvTranspose": 0,
    "Gemm": 0,
}
"""The axis of the second operand along which products are summed."""
_RECURRENT_OPS, _LENGTHS = ("LSTM", "GRU", "RNN"), 4
_RECURRENT: Mapping[int, tuple[str, float]] = {
    2: ("recurrent weights", 0.0),
    3: ("bias", 0.0),
    5: ("initial state", 0.0),
    6: ("initial cell state", 0.0),
    7: ("peepholes", 0.0),
}
_NORMALISING: Mapping[int, tuple[str, float]] = {1: ("scale", 1.0), 2: ("bias", 0.0)}
_BIASED: Mapping[int, tuple[str, float]] = {2: ("bias", 0.0)}
_NEUTRAL: Mapping[str, Mapping[int, tuple[str, float]]] = {
    "BatchNormalization": {**_NORMALISING, 3: ("mean", 0.0), 4: ("variance", 1.0)},
    **dict.fromkeys(
        ("InstanceNormalization", "LayerNormalization", "GroupNormalization"), _NORMALISING
    ),
    **dict.fromkeys(_RECURRENT_OPS, _RECURRENT),
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm"), _BIASED),
    "DeformConv": {2: ("offset", 0.0), 3: ("bias", 0.0), 4: ("mask", 1.0)},
    "STFT": {2: ("window", 1.0)},
}
"""By op type and operand position: its name, and the value that makes it have no effect."""
_APPLIED = frozenset(
    (
        *("Sigmoid", "Tanh", "Gelu", "HardSwish", "HardSigmoid", "Erf", "Softplus", "Exp", "Elu"),
        *("LeakyRelu", "Softsign", "Selu", "Celu", "Mish", "Swish", "Softmax", "LogSoftmax"),
        *("LayerNormalization", "InstanceNormalization", "RMSNormalization", "Sqrt", "Log"),
    )
)
"""Ops that can be applied to their own output; applied twice, linear ones are a gain instead."""
_PLACED: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND"), (1,)),
    "Slice": (1, 2),
}
"""By op type the positions of operands that are indices."""


def first_that_fits(
    view: SampledTensors, trials: Iterable[Trial[Array]], rest: float = LEFT
) -> tuple[Trial[Array], Array] | None:
    """The trial with which the op gives what the device has, and its output; None if none does.

    In a batch the trial that explains most wins; at most the share *rest* of the error's norm may
    stay unexplained.
    """
    for batch in _batches(view, trials):
        outcomes = _outcomes(view, batch)
        fitting = [
            (view.left(view.made(output)), number)
            for number, output in enumerate(outcomes)
            if output is not None and view.explained_by(output, rest)
        ]
        if fitting:
            number = min(fitting)[1]
            output = outcomes[number]
            assert output is not None
            return batch[number], output
    return None


def _batches(view: SampledTensors, trials: Iterable[Trial[Array]]) -> Iterator[list[Trial[Array]]]:
    """Trials in batches that fit in memory."""
    waiting, spent = iter(trials), 0
    own = view.case.device.size + sum(array.size for array in view.case.inputs.values())
    while spent < _ALTOGETHER and (batch := list(islice(waiting, 1))):
        size = own + sum(array.size for array in batch[0].values.values())
        batch += islice(waiting, max(min(_MOST_AT_ONCE, _AT_ONCE // size) - 1, 0))
        spent += size * len(batch)
        yield batch


def _outcomes(view: SampledTensors, trials: Sequence[Trial[Array]]) -> Sequence[Array | None]:
    rerun = view.case.reweigh
    shape = view.case.reference.shape
    outputs = [] if rerun is None else rerun([trial.values for trial in trials])
    return [output if output is not None and output.shape == shape else None for output in outputs]


def wrong_operand(view: SampledTensors) -> Cause | None:
    """The op ignored a part of an operand, or read it in another order."""
    case = view.case
    if case.reweigh is None or case.device.size > LARGEST or not view.visible:
        return None
    twice = first_that_fits(view, _twice(view))
    if twice is not None:
        return _cause(case.ops[0], *twice, view)
    for op in case.ops:
        operands = _given(view, op)
        trial_lists = [
            make(op, operands) for make in (_gates, _neutral, _lengths, _indices, _axes, _window)
        ]
        fed = {name: value for name, value in operands.items() if name in case.inputs}
        for trials in (*trial_lists, _first_item(fed)):
            match = first_that_fits(view, trials)
            if match is not None:
                return _cause(op, *match, view)
        for name, axis in _summed(op, operands):
            cut = _cut_short(view, op, (name, axis), operands[name])
            if cut is not None:
                return cut
    return None


def _twice(view: SampledTensors) -> Iterator[Trial[Array]]:
    """The op's own output in place of its input: it was applied twice."""
    if len(view.case.ops) != 1 or view.case.ops[0].type not in _APPLIED:
        return
    first = _operand(view.case.ops[0], 0)
    operand = None if first is None else view.case.inputs.get(first)
    if first is not None and operand is not None and operand.shape == view.case.reference.shape:
        result = view.case.reference.astype(operand.dtype)
        yield Trial("applied_twice", f"its own result for {first}: applied twice", {first: result})


def _given(view: SampledTensors, op: Op) -> dict[str, Array]:
    """The operands of *op* that are known and not too large, by name."""
    arrays = {**view.case.inputs, **view.case.constants}
    names = [ref.tensor for ref in op.inputs if ref is not None]
    return {name: arrays[name] for name in names if name in arrays and arrays[name].size <= LARGEST}


def _operand(op: Op, place: int) -> str | None:
    ref = op.inputs[place] if len(op.inputs) > place else None
    return None if ref is None else ref.tensor


def _gates(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """The gates in another order, in all weights of a recurrent op."""
    count = _GATES.get(op.type)
    names = [_operand(op, place) for place in (1, 2, 3)]
    if count is None:
        return
    own = {name: operands[name] for name in names if name in operands and name is not None}
    for order in list(permutations(range(count)))[1:]:
        moved = {name: _blocks(value, count, order) for name, value in own.items()}
        if len(moved) > 1 and all(value is not None for value in moved.values()):
            words = f"the gates of its weights in the order {list(order)}"
            values = {name: value for name, value in moved.items() if value is not None}
            yield Trial("wrong_weights", words, values)


def _blocks(value: Array, count: int, order: Sequence[int]) -> Array | None:
    """*value* with the *count* blocks of axis 1 in *order*; a bias has them in both halves. None if
    axis 1 cannot be divided so."""
    if value.ndim not in (2, 3) or value.shape[1] % count:
        return None
    halves = np.split(value, 2, axis=1) if value.ndim == 2 else [value]
    if any(half.shape[1] % count for half in halves):
        return None
    parts = [np.split(half, count, axis=1) for half in halves]
    return np.concatenate([part[place] for part in parts for place in order], axis=1)


def _neutral(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """Parameters and states without effect."""
    for place, (role, value) in _NEUTRAL.get(op.type, {}).items():
        name = _operand(op, place)
        if name is None or name not in operands or operands[name].dtype.kind != "f":
            continue
        if not np.all(operands[name] == value):
            label = "lost_bias" if role == "bias" else "wrong_operand"
            words = f"all {'ones' if value else 'zeros'} in place of its {role} {name}"
            yield Trial(label, words, {name: np.full_like(operands[name], value)})
        if role == "bias" and operands[name].ndim == 1:
            yield Trial("doubled_bias", f"its bias {name} added twice", {name: 2 * operands[name]})
            for by in (1, -1):
                words = f"its bias {name} moved by {by:+d} channel"
                yield Trial("wrong_operand", words, {name: np.roll(operands[name], by)})


def _lengths(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """Sequence lengths of a recurrent op ignored: all as long as the longest may be."""
    name, first = _operand(op, _LENGTHS), _operand(op, 0)
    if op.type in _RECURRENT_OPS and name in operands and first in operands and name and first:
        length = operands[first].shape[1 if op.attrs.get("layout") else 0]
        words = f"{name} all {length}: no sequence ends before"
        yield Trial("wrong_operand", words, {name: np.full_like(operands[name], length)})


def _first_item(fed: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """The first item of the batch in place of all items, for one of several operands."""
    for name, value in fed.items() if len(fed) > 1 else ():
        if value.ndim > 1 and value.shape[0] > 1 and value.dtype.kind in "fb":
            first = np.ascontiguousarray(np.broadcast_to(value[:1], value.shape))
            yield Trial("wrong_operand", f"the first item of {name} for all", {name: first})


def _indices(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """Indices one lower or higher."""
    names = [_operand(op, place) for place in _PLACED.get(op.type, ())]
    names_given = [name for name in names if name is not None and name in operands]
    if (
        not names_given
        or len(names_given) < len(names)
        or any(operands[n].dtype.kind not in "iu" for n in names_given)
    ):
        return
    for by in (1, -1):
        words = f"{' and '.join(names_given)} one {'higher' if by > 0 else 'lower'}"
        moved = {name: operands[name] + operands[name].dtype.type(by) for name in names_given}
        yield Trial("wrong_operand", words, moved)
        if len(names_given) == 1:
            largest = operands[names_given[0]].max(initial=0)
            clipped = {name: np.clip(value, 0, largest) for name, value in moved.items()}
            yield Trial("wrong_operand", f"{words}, clipped to those there are", clipped)


def _axes(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """Other axes of a reduction, where the axes are an operand."""
    name = _operand(op, 1) if op.type.startswith("Reduce") else None
    first = _operand(op, 0)
    if name is None or first is None or name not in operands or first not in operands:
        return
    if operands[name].ndim != 1:
        return
    count = operands[first].ndim
    own = sorted(int(axis) % count for axis in operands[name]) if count else []
    for axes in combinations(range(count), len(own)):
        if list(axes) != own:
            words = f"{axes_text(axes)} reduced in place of {axes_text(own)}"
            yield Trial("wrong_axis", words, {name: np.asarray(axes, operands[name].dtype)})


def _window(op: Op, operands: Mapping[str, Array]) -> Iterator[Trial[Array]]:
    """One place along an axis of a convolution's window left out."""
    name = _operand(op, 1) if op.type in ("Conv", "ConvTranspose") else None
    if name not in operands or name is None or operands[name].ndim < 3:
        return
    weight = operands[name]
    all_slices: tuple[slice, ...] = (slice(None),) * weight.ndim
    places: list[tuple[str, tuple[int | slice, ...]]] = [
        (f"place {at} of axis {axis}", (*all_slices[:axis], at, *all_slices[axis + 1 :]))
        for axis in range(2, weight.ndim)
        for at in range(weight.shape[axis] if weight.shape[axis] <= _WIDEST else 0)
    ]
    for words, place in places:
        if weight[place].any() and weight[place].size < weight.size:
            lost = weight.copy()
            lost[place] = 0
            yield Trial("wrong_weights", f"{words} of the window {name} left out", {name: lost})


def _summed(op: Op, operands: Mapping[str, Array]) -> Iterator[tuple[str, int]]:
    """The weight of a matrix op, and the axis along which its products are summed."""
    if op.type not in _SUMMED:
        return
    name, axis = _operand(op, 1), _SUMMED[op.type]
    if op.type == "Gemm" and op.attrs.get("transB"):
        axis = 1
    if name in operands and name is not None and operands[name].ndim > 1:
        axis %= operands[name].ndim
        if operands[name].dtype.kind == "f" and operands[name].shape[axis] >= 4:
            yield name, axis


def _cut_short(view: SampledTensors, op: Op, at: tuple[str, int], operand: Array) -> Cause | None:
    """The beginning or the end of each sum was left out; the count is searched."""
    name, axis = at
    length = operand.shape[axis]
    if view.d.size < _TELLING:
        return None
    for end in (True, False):

        def lost(count: int, end: bool = end) -> Trial[Array]:
            values = operand.copy()
            where = slice(length - count, None) if end else slice(count)
            values[(*(slice(None),) * axis, where)] = 0
            side = "last" if end else "first"
            what = "input channels" if "conv" in op.type.lower() else "products of each sum"
            words = f"the {side} {count} of {length} {what} left out"
            return Trial("sum_cut_short", words, {name: values})

        match = _least(view, lost, length - 1)
        if match is not None:
            return _cause(op, *match, view)
    return None


def _least(
    view: SampledTensors, lost: Callable[[int], Trial[Array]], limit: int
) -> tuple[Trial[Array], Array] | None:
    """The trial of the count that leaves least of the error, if that explains it. The search
    relies on the error having a single minimum over the counts."""
    low, high, best = 1, limit, 0
    errors: dict[int, float] = {}
    for turn in range(_ROUNDS):
        places = (np.linspace if turn else np.geomspace)(low, high, _PLACES)
        counts = [count for count in np.unique(places.round()).tolist() if count not in errors]
        waiting = iter(counts)
        for batch in _batches(view, (lost(int(count)) for count in counts)):
            for output in _outcomes(view, batch):
                error_left = float("inf") if output is None else view.left(view.made(output))
                errors[int(next(waiting))] = error_left
        best = min(errors, key=lambda count: errors[count], default=0)
        if not best or errors[best] > _PROMISING:
            return None
        ordered = sorted(errors)
        place = ordered.index(best)
        low, high = ordered[max(place - 1, 0)], ordered[min(place + 1, len(ordered) - 1)]
        if all(count in errors for count in range(low, high + 1)):
            break
    return first_that_fits(view, [lost(best)])


def _cause(op: Op, trial: Trial[Array], output: Array, view: SampledTensors) -> Cause:
    words = f"with {trial.words}"
    return view.cause_of_rerun(op, trial.label, words, output, operands=list(trial.values))
