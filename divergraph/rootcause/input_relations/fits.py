"""Lengths, likeness and least squares of values in memory, without the threads of BLAS.

It starts them for ten thousand elements, and on a busy machine they wait for each other.
"""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.contract import Array


def length(values: Array) -> float:
    """The Euclidean norm of float64 *values*."""
    return math.sqrt(float(np.sum(np.square(values))))


def correlation(one: Array, other: Array) -> float:
    """The cosine between two arrays of one shape; 0 if one of them is zero."""
    size = length(one) * length(other)
    return float(np.sum(one * other)) / size if size else 0.0


def least_squares(columns: Array, values: Array) -> Array:
    """The multiples of few *columns*, float64, that come nearest to *values*."""
    squares, products = (
        np.einsum("ij,ik->jk", columns, columns),
        np.einsum("ij,i->j", columns, values),
    )
    solution: Array = np.linalg.lstsq(squares, products, rcond=None)[0]
    return solution
