"""Matrix ops as products of two matrices, whatever their attributes and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.families import Factor, Family, family_of
from divergraph.rootcause.devices.patches import Patches
from graphstore.model import Op

_MATRIX = 2


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """What an op multiplies: ``first`` [..., m, k] and ``second`` [..., k, n], patches of a
    convolution being rows. Its output is [..., m, n] in another ``shape``; ``turned`` (by
    convolutions) it is [..., n, m]."""

    first: Array
    second: Array
    shape: tuple[int, ...]
    turned: bool = False

    @classmethod
    def of(
        cls,
        op: Op,
        factors: Sequence[Factor],
        values: Sequence[Array],
        shape: tuple[int, ...],
        memory: int,
    ) -> MatrixProduct | None:
        """The product that *op* is, with an output of this *shape*, within *memory* bytes; None for
        ops that are no single product, and those whose *values* (of *factors*) do not fit."""
        if len(values) != _MATRIX or len(factors) != _MATRIX:
            return None
        first, second = (np.asarray(array, np.float32) for array in values)
        family, turned = family_of(op), False
        if family in (Family.PRODUCT, Family.LINEAR):
            if min(first.ndim, second.ndim) < _MATRIX:
                return None
            first = np.moveaxis(first, factors[0].axis, -1) if factors[0].axis != -1 else first
            second = np.swapaxes(second, -1, -2) if factors[1].axis == -1 else second
            if second.ndim == _MATRIX:
                first = first.reshape(-1, first.shape[-1])
        elif family in (Family.CONVOLUTION, Family.GROUPED) and op.type == "Conv":
            patches = None
            if first.ndim == second.ndim == len(shape):
                patches = Patches.of(op, first, second, shape)
            if patches is None or math.prod(shape) * 4 * second[0].size > memory:
                return None
            first = np.concatenate([*patches.rows(first, shape[2])], axis=2)
            groups, turned = patches.groups, True
            second = second.reshape(groups, second.shape[0] // groups, -1).swapaxes(-1, -2)
        else:
            return None
        if first.shape[-1] != second.shape[-2]:
            return None
        product = cls(first, second, shape, turned)
        return product if math.prod(product.made) == math.prod(shape) else None

    @property
    def made(self) -> tuple[int, ...]:
        """[..., m, n]."""
        batch = np.broadcast_shapes(self.first.shape[:-2], self.second.shape[:-2])
        return (*batch, self.first.shape[-2], self.second.shape[-1])

    def matrix(self, output: Array) -> Array:
        """An *output* of the op, or of what follows it, as [..., m, n] in float32."""
        *batch, rows, columns = self.made
        sides = np.asarray(output, np.float32)
        if not self.turned:
            return sides.reshape(self.made)
        return sides.reshape(*batch, columns, rows).swapaxes(-1, -2)

    def output(self, matrix: Array) -> Array:
        """A *matrix* [..., m, n] as the op gives it."""
        return (matrix.swapaxes(-1, -2) if self.turned else matrix).reshape(self.shape)
