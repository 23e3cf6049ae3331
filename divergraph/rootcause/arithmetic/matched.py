"""Which operand formats a product shows, found without running it once for each.

The error of a product whose operands were rounded is dX W + X dW. A format predicts dX; whether the
error E holds its part, the correlation of dX with E Wᵀ tells, as radar finds an echo: right formats
stand hundreds of standard deviations out of chance, neighbours of them less. So a candidate costs
one rounding of the operand and no product, and both operands are asked for apart. Of ways of adding
up a few rows and columns tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Accumulator, OperandFormat, Role
from divergraph.rootcause.arithmetic.families import Factor, factors_of, family_of
from divergraph.rootcause.arithmetic.products import MatrixProduct
from divergraph.rootcause.groups.group_runs import GroupSample
from divergraph.rootcause.tolerances.noise_floor import Emulation
from divergraph.rootcause.values import same_shape
from graphstore.model import Op

_SAME = 0.02
"""What a product here may be off from the group's reference: weights rounded to 16 bits cost 0.002,
another product all of it."""
_MOST = 1 << 18
"""Elements of an operand that are rounded by each format, as whole rows. Bounds cost."""
_FEW = 24
"""Rows and columns of a product that are added up in every way. Bounds cost."""
_TILE = 128
"""Rows are cut in multiples of this, so that no tile of a layout is cut in two."""


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
        row_limit = max(_MOST // terms // _TILE, 1) * _TILE
        if len(rows) > row_limit:
            extremes = np.stack([rows.max(0), rows.min(0)])
            rows, heard = np.concatenate([rows[:row_limit], extremes]), heard[:row_limit]
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


@dataclass(frozen=True, slots=True)
class ProductErrors:
    """The only product of a group, with the ``error`` of its output [..., m, n]. ``values`` are
    those of its ``factors`` as they are held."""

    op: Op
    factors: tuple[Factor, ...]
    values: tuple[Array, ...]
    product: MatrixProduct
    error: Array
    memory: int

    @classmethod
    def of(cls, sample: GroupSample, floors: Emulation) -> ProductErrors | None:
        """The product of a group; None where the group computes more than that: what is behind the
        product may only add a vector to each row or give it another shape."""
        golden = floors.golden
        ops = [golden.ops[op_id] for op_id in sample.group.ops]
        products = [op for op in ops if family_of(op) is not None]
        device = same_shape(sample.device, sample.reference.shape)
        if len(products) != 1 or device is None or not np.isfinite(device).all():
            return None
        (op,) = products
        factors = tuple(factors_of(op, golden))
        values = _values(sample, floors, op, factors)
        product = MatrixProduct.of(op, factors, values, sample.reference.shape, floors.memory)
        if product is None:
            return None
        reference, output = (product.matrix(output) for output in (sample.reference, device))
        rest = reference - np.matmul(product.first, product.second)
        size = float(np.linalg.norm(reference))
        rest -= rest.mean(axis=-2, keepdims=True)  # a bias is the same in each row
        if not float(np.linalg.norm(rest)) <= _SAME * size:
            return None
        return cls(op, factors, values, product, output - reference, floors.memory)

    def sides(self) -> tuple[Side, Side]:
        """Both factors."""
        first, second, error = self.product.first, self.product.second, self.error
        turned = np.swapaxes(second, -1, -2)
        echoes = np.matmul(error, turned), np.matmul(np.swapaxes(error, -1, -2), first)
        return (
            Side.of(self.factors[0].role, first, echoes[0]),
            Side.of(self.factors[1].role, turned, _summed_to(echoes[1], turned.shape)),
        )

    def sums_agreements(self, kind: OperandFormat, sums: Sequence[Accumulator]) -> list[float]:
        """For each way of adding up, the cosine between its errors and those that operands in the
        format *kind* leave, of a few outputs; 0 where there are none."""
        read = [
            kind.operand(value, factor.axis, factor.role)
            for value, factor in zip(self.values, self.factors, strict=True)
        ]
        product = MatrixProduct.of(self.op, self.factors, read, self.product.shape, self.memory)
        assert product is not None, "formats change no shapes"
        first, second = _few(product.first, -2), _few(product.second, -1)
        exact = first @ second
        usual = _few(self.product.first, -2) @ _few(self.product.second, -1)
        remainder = _few(_few(self.error, -2), -1) - (exact - usual)
        return [
            agreement(remainder, accumulator.added(first, second) - exact) for accumulator in sums
        ]


def agreement(one: Array, other: Array) -> float:
    """The cosine between two arrays of errors; 0 where one has none, or is not finite."""
    with np.errstate(all="ignore"):
        sizes = float(np.vdot(one, one)) * float(np.vdot(other, other))
        return float(np.vdot(one, other)) / math.sqrt(sizes) if 0.0 < sizes < math.inf else 0.0


def _few(value: Array, axis: int) -> Array:
    """A few rows or columns of the first matrix of *value*, evenly spaced."""
    matrix = value.reshape(-1, *value.shape[-2:])[0]
    places = np.arange(0, matrix.shape[axis], -(-matrix.shape[axis] // _FEW))
    return np.asarray(matrix.take(places, axis))


def _values(
    sample: GroupSample, floors: Emulation, op: Op, factors: tuple[Factor, ...]
) -> tuple[Array, ...]:
    """The values of *factors* of *op* in the group of *sample*, as far as they can be had: those
    that were not dumped as the device may have computed them."""
    arrays = []
    inputs = {ref.tensor: ref.producer for ref in op.inputs if ref is not None}
    for name in (factor.tensor for factor in factors):
        maker, ops = inputs[name], sample.group.ops
        value = sample.given.get(name)
        if value is None and maker is not None and maker.op in ops:
            before = replace(sample.group, golden=maker, ops=ops[: ops.index(maker.op) + 1])
            (value,) = floors.emulated([before], [sample.given])
        elif value is None:
            value = floors.constants([name]).get(name)
        if value is not None:
            arrays.append(floors.precision.rounded(np.asarray(value, np.float32)))
    return tuple(arrays)


def _summed_to(value: Array, shape: tuple[int, ...]) -> Array:
    """*value* added up over the axes along which *shape* was broadcast."""
    more = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(more))) if more else value
    axes = tuple(n for n, size in enumerate(shape) if size == 1 < value.shape[n])
    return value.sum(axis=axes, keepdims=True) if axes else value
