"""Metrics of all ops at once, as :mod:`divergraph.text.words` says of one: which are known, and
which have no value though all values are finite."""

from __future__ import annotations

import numpy as np

from divergraph.text.words import NOT_KNOWN
from graphstore.columns.coded import Bool
from graphstore.columns.op_columns import OpColumns
from graphstore.columns.parts import OptionalNumbers
from graphstore.model import Metric


def known_figures(ops: OpColumns, metric: Metric) -> OptionalNumbers:
    """*metric* of each op; not known without metrics, or if nothing gives it."""
    has_figure = ~ops.metrics.noted(metric, NOT_KNOWN)
    return OptionalNumbers(ops.figure(metric.value), ops.of_measured(has_figure, fill=False))


def undefined_figures(ops: OpColumns, metric: Metric) -> Bool:
    """The ops whose *metric* has no value: the cosine of zeros, or an error relative to them."""
    figures = known_figures(ops, metric)
    finite = ops.of_measured(ops.metrics.finite, fill=False)
    undefined: Bool = finite & figures.known & np.isnan(figures.values)
    return undefined
