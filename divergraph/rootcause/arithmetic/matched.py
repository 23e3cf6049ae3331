"""Which operand formats a product shows, found without running it once for each.

The error of a product whose operands were rounded is dX W + X dW. A format predicts dX; whether the
error E holds its part, the correlation of dX with E Wᵀ tells, as radar finds an echo: right formats
stand hundreds of standard deviations out of chance, neighbours of them less. So a candidate costs
one rounding of the operand and no product, and both operands are asked for apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array, RunnableSubgraph
from divergraph.rootcause.arithmetic.contract import Role
from divergraph.rootcause.arithmetic.families import Factor, Family, factors_of, family_of
from divergraph.rootcause.devices.patches import Patches
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import same_shape
from graphstore.model import Op

_SAME = 0.02
"""What a product here may be off from the group's reference: weights rounded to 16 bits cost 0.002,
another product all of it."""
_MOST = 1 << 18
"""Elements of an operand that are rounded by each format, as whole rows. Bounds cost."""
_TILE = 128
"""Rows are cut in multiples of this, so that no tile of a layout is cut in two."""
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Side:
    """One factor of a product, its ``value`` as rows along the sum (float32, [rows, terms]), and
    the ``echo`` of the same shape in which errors of its rounding show. Rows at the end of the
    value that the echo lacks hold extremes of what was cut off: scales may depend on them."""

    role: Role
    value: Array
    echo: Array

    @classmethod
    def of(cls, role: Role, value: Array, echo: Array) -> Side:
        """The first rows of *value* and *echo* ([..., rows, terms] each)."""
        terms = value.shape[-1]
        rows, heard = value.reshape(-1, terms), echo.reshape(-1, terms)
        most = max(_MOST // terms // _TILE, 1) * _TILE
        if len(rows) > most:
            extremes = np.stack([rows.max(0), rows.min(0)])
            rows, heard = np.concatenate([rows[:most], extremes]), heard[:most]
        return cls(role, rows, heard)

    def agreement(self, rounded: Array) -> float:
        """The correlation of the errors of ``value`` *rounded* with what the product shows of
        them, in standard deviations of what chance leaves; 0 where nothing was rounded."""
        with np.errstate(all="ignore"):
            errors = (rounded - self.value)[: len(self.echo)]
            sizes = float(np.vdot(errors, errors)) * float(np.vdot(self.echo, self.echo))
            if not 0.0 < sizes < math.inf:
                return 0.0
            return float(np.vdot(errors, self.echo)) / math.sqrt(sizes / errors.size)


def sides_of(sample: GroupSample, floors: Emulation) -> tuple[Side, ...]:
    """Both factors of the only product of a group, () where the group computes more than that:
    what is behind the product may only add a vector to each row or give it another shape."""
    golden = floors.golden
    ops = [golden.ops[op_id] for op_id in sample.group.ops]
    products = [op for op in ops if family_of(op) is not None]
    device = same_shape(sample.device, sample.reference.shape)
    if len(products) != 1 or device is None or not np.isfinite(device).all():
        return ()
    (op,) = products
    factors = tuple(factors_of(op, golden))
    held = [floors.precision.rounded(each) for each in _values(sample, floors, factors)]
    matrices = _matrices(op, factors, held, sample, floors.memory)
    if matrices is None:
        return ()
    first, second, reference, made = matrices
    beside = reference - np.matmul(first, second)
    size = float(np.linalg.norm(reference))
    beside -= beside.mean(axis=-2, keepdims=True)  # a bias is the same in each row
    if not float(np.linalg.norm(beside)) <= _SAME * size:
        return ()
    error = made - reference
    echoes = (
        np.matmul(error, np.swapaxes(second, -1, -2)),
        np.matmul(np.swapaxes(error, -1, -2), first),
    )
    turned = np.swapaxes(second, -1, -2)
    return (
        Side.of(factors[0].role, first, echoes[0]),
        Side.of(factors[1].role, turned, _summed_to(echoes[1], turned.shape)),
    )


def _values(sample: GroupSample, floors: Emulation, factors: tuple[Factor, ...]) -> list[Array]:
    """The values of *factors* in the group of *sample*, as far as they can be had."""
    names = [each.tensor for each in factors]
    known = dict(sample.given)
    missing = tuple(name for name in names if name not in known)
    if missing:
        piece = RunnableSubgraph("factors", tuple(known), missing)
        ran = floors.executor.run_subgraphs([piece], lambda _: sample.given, memory=floors.memory)
        for each in ran:
            known |= each.values
    values = (known.get(name) for name in names)
    return [np.asarray(each, np.float32) for each in values if each is not None]


def _matrices(
    op: Op, factors: tuple[Factor, ...], held: list[Array], sample: GroupSample, memory: int
) -> tuple[Array, Array, Array, Array] | None:
    """Factors [..., m, k] and [..., k, n], reference and device output [..., m, n] of a product as
    float32 matrices, patches of a convolution being rows; None for other ops and shapes."""
    if len(held) != _MATRIX or len(factors) != _MATRIX:
        return None
    first, second = held
    shape, family = sample.reference.shape, family_of(op)
    sides = [np.asarray(each, np.float32) for each in (sample.reference, sample.device)]
    if family in (Family.PRODUCT, Family.LINEAR):
        if min(first.ndim, second.ndim) < _MATRIX:
            return None
        first = np.moveaxis(first, factors[0].axis, -1) if factors[0].axis != -1 else first
        second = np.swapaxes(second, -1, -2) if factors[1].axis == -1 else second
        if second.ndim == _MATRIX:
            first = first.reshape(-1, first.shape[-1])
        if first.shape[-1] != second.shape[-2]:
            return None
        batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
        made: tuple[int, ...] = (*batch, first.shape[-2], second.shape[-1])
    elif family in (Family.CONVOLUTION, Family.GROUPED) and op.type == "Conv":
        patches = None
        if first.ndim == second.ndim == len(shape):
            patches = Patches.of(op, first, second, shape)
        if patches is None or sample.reference.nbytes * second[0].size > memory:
            return None
        first, groups = patches.rows(first), patches.groups
        second = second.reshape(groups, second.shape[0] // groups, -1).swapaxes(-1, -2)
        turned = (shape[0], groups, second.shape[-1], first.shape[-2])
        if math.prod(turned) != sample.reference.size:  # the group goes on behind the convolution
            return None
        sides = [each.reshape(turned).swapaxes(-1, -2) for each in sides]
        made = sides[0].shape
    else:
        return None
    if math.prod(made) != sample.reference.size:
        return None
    return first, second, sides[0].reshape(made), sides[1].reshape(made)


def _summed_to(value: Array, shape: tuple[int, ...]) -> Array:
    """*value* added up over the axes along which *shape* was broadcast."""
    more = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(more))) if more else value
    axes = tuple(n for n, size in enumerate(shape) if size == 1 < value.shape[n])
    return value.sum(axis=axes, keepdims=True) if axes else value
