"""Sums of products in 16 bits: one term, or a chunk of terms, after another.

Matrix engines multiply chunks of so many terms exactly and add what they give to a sum; vector
units do it term by term. A sum in 16 bits is rounded after each addition: it drifts, and where all
terms are positive it may stand still.

Sources: float16 accumulators of NVIDIA's tensor cores (chunks of 4 to 16, Fasi and others,
"Numerical behavior of NVIDIA tensor cores", 2021); bfloat16 and float16 vector units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Accumulator, Grid
from divergraph.rootcause.arithmetic.formats.bf16 import ARITHMETIC as BF16
from divergraph.rootcause.arithmetic.formats.fp16 import ARITHMETIC as FP16
from divergraph.text.words import counted

_MOST = 1 << 28
"""Roundings of one product, about a second. Of larger ones the first rows are added up so, and the
others are off as these are. Bounds cost."""


@dataclass(frozen=True)
class ShortSums(Accumulator):
    """Sums rounded to ``grid`` after each ``chunk`` of terms (0: after all of them), in turn or in
    some order: then a chunk stands for as many sums that are kept side by side as well."""

    grid: Grid
    chunk: int = 1
    ordered: bool = True

    @property
    def once(self) -> bool:  # type: ignore[override]  # follows from its parts
        """Whether it rounds after all terms."""
        return self.chunk == 0

    @property
    def name(self) -> str:  # type: ignore[override]  # follows from its parts
        """``fp16 in turn``, ``bf16 by 16``, ``bf16 once``."""
        size = "once" if self.once else "in turn" if self.chunk == 1 else f"by {self.chunk}"
        return f"{self.grid.name} {size}{'' if self.ordered else ', in some order'}"

    @property
    def words(self) -> str:  # type: ignore[override]  # follows from its parts
        """What a sentence says behind "sums"."""
        if self.once:
            return f"{self.grid.name}, all terms together"
        if not self.ordered:
            return f"{self.grid.name}, in an order that is not known"
        return f"{self.grid.name}, {counted(self.chunk, 'term')} after another"

    def added(self, first: Array, second: Array) -> Array:
        """See :meth:`Accumulator.added`."""
        rows, terms = first.shape[-2:]
        if not self.ordered:
            order = np.random.default_rng(terms).permutation(terms)
            first, second = first[..., order], second[..., order, :]
        batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
        outputs = int(np.prod(batch)) * rows * second.shape[-1]
        chunk = self.chunk or max(terms, 1)
        row_count = max(1, rows * _MOST // max(1, outputs * -(-terms // chunk)))
        few = first[..., :row_count, :]
        total = np.zeros((*batch, few.shape[-2], second.shape[-1]), np.float32)
        with np.errstate(all="ignore"):
            for start in range(0, terms, chunk):
                part = slice(start, start + chunk)
                total = self.grid.rounded(total + few[..., part] @ second[..., part, :])
            if row_count >= rows:
                return total
            exact = first @ second
            off = total - exact[..., :row_count, :]
            places = np.arange(rows) % row_count
            sizes = np.linalg.norm(exact, axis=-1, keepdims=True)
            scale = sizes / np.maximum(sizes[..., places, :], np.finfo(np.float32).tiny)
            return np.asarray(exact + off[..., places, :] * scale, np.float32)


_CHUNKS = (1, 2, 4, 8, 16, 32, 64)

ARITHMETIC = (
    *(ShortSums(grid, 0) for grid in (FP16, BF16)),
    *(
        ShortSums(grid, chunk, ordered)
        for grid in (FP16, BF16)
        for ordered in (True, False)
        for chunk in _CHUNKS
    ),
)
