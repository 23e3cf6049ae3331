"""The other values of attributes and arguments that an op may have been computed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations

from divergraph.execute.contract import OP_TYPE
from divergraph.execute.translate.piece import ArgumentKind, ReadArgument
from divergraph.execute.translate.torch.matrices import SHIFT
from divergraph.rootcause.causes.evidence import Trial
from graphstore.model import AttrValue, Op


def trials(op: Op, axes: int) -> Iterator[Trial[AttrValue]]:
    """Other values of the attributes that compilers confuse, for an op whose output has *axes*."""
    for types, make in _TRIALS:
        if op.type in types:
            yield from make(op, axes)
    yield from _other_types(op)
    yield from _choices(op)


def trials_of_arguments(
    arguments: Mapping[str, ReadArgument], axes: int
) -> Iterator[Trial[AttrValue]]:
    """Other axes, flags and words that a recorded call may have been made with."""
    for attribute, read in arguments.items():
        own, others = read.value, tuple[AttrValue, ...]()
        if read.kind is ArgumentKind.AXIS:
            others = tuple(range(axes))
        elif read.kind is ArgumentKind.FLAG:
            others = (not own,)
        elif read.kind is ArgumentKind.WORD:
            others = next((words for words in _WORDS if own in words), ())
        label = "wrong_axis" if read.kind is ArgumentKind.AXIS else "wrong_setting"
        for other in others:
            if other != own:
                words = f"with {read.name} {other} in place of {own}"
                yield Trial(label, words, {attribute: other})


def _other_types(op: Op) -> Iterator[Trial[AttrValue]]:
    """Types that take the same operands and attributes: a kernel that was registered for another
    op gives what that gives."""
    alike = (other for types in _ALIKE if op.type in types for other in types)
    for other in dict.fromkeys(other for other in alike if other != op.type):
        choices = _CHOICES.get(other, {}).items()
        settings = [{name: value} for name, values in choices for value in values] or [{}]
        for setting in settings:
            yield Trial("wrong_operation", f"computed as {other}", {OP_TYPE: other, **setting})


def _axis(op: Op, axes: int) -> Iterator[Trial[AttrValue]]:
    own = op.attrs.get("axis", -1)
    number = int(own) % axes if isinstance(own, int) and axes else 0
    for axis in range(axes):
        if axis != number:
            yield Trial("wrong_axis", f"along axis {axis} in place of {number}", {"axis": axis})


def _mask(_op: Op, _axes: int) -> Iterator[Trial[AttrValue]]:
    for shift in (1, -1):
        words = f"with its mask shifted by one: it allows position i{shift:+d} as the last"
        yield Trial("wrong_setting", words, {SHIFT: shift})


def _pads(op: Op, _axes: int) -> Iterator[Trial[AttrValue]]:
    auto = op.attrs.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        other = "SAME_LOWER" if auto == "SAME_UPPER" else "SAME_UPPER"
        yield Trial("wrong_pads", f"with auto_pad {other} in place of {auto}", {"auto_pad": other})
    pads = op.attrs.get("pads")
    if not isinstance(pads, tuple) or not all(isinstance(pad, int) for pad in pads):
        return
    own = [int(pad) for pad in pads if isinstance(pad, int)]
    half = len(own) // 2
    moves: dict[tuple[int, ...], None] = {}
    for axis in reversed(range(half)):
        for by in (1, -1):
            moves[_moved(own, [axis], by)] = None
    for by in (1, -1):
        moves[_moved(own, list(range(half)), by)] = None
    for axis in range(half):
        both = own[axis] + own[half + axis]
        for begin in range(both + 1):
            new_pads = [*own]
            new_pads[axis], new_pads[half + axis] = begin, both - begin
            moves[tuple(new_pads)] = None
    for moved in moves:
        if moved != tuple(own) and min(moved) >= 0:
            words = f"with pads {list(moved)} in place of {own}"
            yield Trial("wrong_pads", words, {"pads": moved})


def _moved(pads: list[int], axes: list[int], by: int) -> tuple[int, ...]:
    moved, half = [*pads], len(pads) // 2
    for axis in axes:
        moved[axis] -= by
        moved[half + axis] += by
    return tuple(moved)


def _reduced(op: Op, axes: int) -> Iterator[Trial[AttrValue]]:
    """The same number of other axes of a reduction."""
    own = op.attrs.get("axes")
    if not op.type.startswith("Reduce") or not isinstance(own, tuple):
        return
    count = axes if op.attrs.get("keepdims", 1) else axes + len(own)
    numbers = [int(axis) % count for axis in own if isinstance(axis, int)]
    for other in combinations(range(count), len(numbers)):
        if sorted(numbers) != list(other):
            words = f"axes {list(other)} reduced in place of {sorted(numbers)}"
            yield Trial("wrong_axis", words, {"axes": other})


def _factors(op: Op, _axes: int) -> Iterator[Trial[AttrValue]]:
    """A Gemm without its factors."""
    for name in ("alpha", "beta"):
        own = op.attrs.get(name, 1.0)
        if own != 1.0:
            yield Trial("wrong_setting", f"with {name} 1 in place of {own}", {name: 1.0})


def _direction(op: Op, _axes: int) -> Iterator[Trial[AttrValue]]:
    own = op.attrs.get("direction", "forward")
    if own in ("forward", "reverse"):
        other = "reverse" if own == "forward" else "forward"
        words = f"with direction {other} in place of {own}"
        yield Trial("wrong_setting", words, {"direction": other})


def _dilations(op: Op, axes: int) -> Iterator[Trial[AttrValue]]:
    """Other dilations, with pads grown or shrunk so that the output keeps its shape."""
    spatial = axes - 2
    kernel = op.attrs.get("kernel_shape")
    own = _ints(op.attrs.get("dilations"), (1,) * spatial)
    pads = _ints(op.attrs.get("pads"), (0,) * 2 * spatial)
    if spatial < 1 or len(own) != spatial or len(pads) != 2 * spatial:
        return
    size = _ints(kernel, (3,) * spatial)  # optional in files; 3 is the usual size
    for wide in (1, 2, 3, 4):
        grown = [(wide - was) * (length - 1) for was, length in zip(own, size, strict=True)]
        moved = [pad + grown[n % spatial] // 2 for n, pad in enumerate(pads)]
        if any(wide != was for was in own) and min(moved) >= 0:
            words = f"with dilations {[wide] * spatial} in place of {list(own)}"
            yield Trial(
                "wrong_setting", words, {"dilations": (wide,) * spatial, "pads": tuple(moved)}
            )


def _ints(value: AttrValue | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(value, tuple):
        return otherwise
    return tuple(number for number in value if isinstance(number, int))


def _order(op: Op, axes: int) -> Iterator[Trial[AttrValue]]:
    own = op.attrs.get("perm")
    if axes > 4:
        return
    for order in permutations(range(axes)):
        if order != own:
            words = f"with axes in the order {list(order)}: the right values in another order"
            yield Trial("reordered", words, {"perm": order})


def _choices(op: Op) -> Iterator[Trial[AttrValue]]:
    """Every other value of attributes that have only a few."""
    for name, values in _CHOICES.get(op.type, {}).items():
        own = op.attrs.get(name, values[0])
        for value in values:
            if value != own:
                words = f"with {name} {value} in place of {own}"
                yield Trial("wrong_setting", words, {name: value})


_RESIZING: Mapping[str, tuple[AttrValue, ...]] = {
    "coordinate_transformation_mode": (
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
    ),
    "nearest_mode": ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"),
    "mode": ("nearest", "linear", "cubic"),
    "exclude_outside": (0, 1),
    "antialias": (0, 1),
}
_SCATTERING: Mapping[str, tuple[AttrValue, ...]] = {
    "reduction": ("none", "add", "mul", "max", "min"),
}
_CHOICES: Mapping[str, Mapping[str, tuple[AttrValue, ...]]] = {
    "AveragePool": {"count_include_pad": (0, 1)},
    "Pooling": {"pooling_param.pool": ("MAX", "AVE")},
    "Gelu": {"approximate": ("none", "tanh")},
    "Resize": _RESIZING,
    "Upsample": _RESIZING,
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "CumSum": {"exclusive": (0, 1), "reverse": (0, 1)},
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Gemm": {"transB": (0, 1), "transA": (0, 1)},
    "GRU": {"linear_before_reset": (0, 1)},
    "LSTM": {"input_forget": (0, 1)},
    "GridSample": {
        "align_corners": (0, 1),
        "padding_mode": ("zeros", "border", "reflection"),
        "mode": ("linear", "bilinear", "nearest", "cubic", "bicubic"),
    },
    "RoiAlign": {
        "coordinate_transformation_mode": ("half_pixel", "output_half_pixel"),
        "mode": ("avg", "max"),
    },
    "ScatterElements": _SCATTERING,
    "ScatterND": _SCATTERING,
    "TopK": {"largest": (1, 0)},
    "Mod": {"fmod": (0, 1)},
    "Trilu": {"upper": (1, 0)},
    "RotaryEmbedding": {"interleaved": (0, 1)},
    "Attention": {"is_causal": (0, 1)},
    **{f"{window}Window": {"periodic": (1, 0)} for window in ("Hann", "Hamming", "Blackman")},
}
"""By op type and attribute all its values, the default first."""
_REDUCING = frozenset(
    f"Reduce{reduction}"
    for reduction in (
        "Sum",
        "Mean",
        "Max",
        "Min",
        "Prod",
        "L1",
        "L2",
        "SumSquare",
        "LogSum",
        "LogSumExp",
    )
)
_ALIKE: tuple[tuple[str, ...], ...] = (
    ("MaxPool", "AveragePool"),
    ("GlobalMaxPool", "GlobalAveragePool"),
    tuple(sorted(_REDUCING)),
    ("ArgMax", "ArgMin"),
    ("And", "Or", "Xor"),
    ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    # TensorFlow's
    ("MaxPool", "AvgPool"),
    ("Max", "Mean", "Min", "Prod", "Sum"),
    ("LogicalAnd", "LogicalOr"),
    ("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"),
)
"""Types of ops that differ in nothing but what they compute."""
_PADDED = frozenset(("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "ConvInteger"))
_TRIALS: tuple[tuple[frozenset[str], Callable[[Op, int], Iterator[Trial[AttrValue]]]], ...] = (
    (frozenset(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")), _axis),
    (_PADDED, _pads),
    (frozenset(("Conv",)), _dilations),
    (frozenset(("Transpose",)), _order),
    (frozenset(("Gemm",)), _factors),
    (frozenset(("LSTM", "GRU", "RNN")), _direction),
    (_REDUCING, _reduced),
    (frozenset(("scaled_dot_product_attention",)), _mask),
)
_WORDS: tuple[tuple[str, ...], ...] = (
    ("nearest", "bilinear", "bicubic"),
    ("constant", "reflect", "replicate", "circular"),
    ("zeros", "border", "reflection"),
)
"""Words of PyTorch in place of which a call may be given another of the same row."""
