"""Lists of tensors while a model is translated: TensorArrays, TensorLists, stacks.

A list is no tensor: it is known, element by element, under a number. Ops that hand it on hand on
that number, a constant. So loops over lists become plain ONNX nodes from element to element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(slots=True)
class TensorList:
    """Tensors by their names in the translation, None where nothing was written; their element
    type, and the shape each has, as far as it is known (-1 for a size that is not)."""

    elements: list[str | None]
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None = None
    gradients: dict[str, int] = field(default_factory=dict)
    """The numbers of lists of the gradients of this one, by who made them."""
    adds_up: bool = False
    """Whether what is written twice is added up: in lists of gradients."""


class TensorLists:
    """The lists of one run by number."""

    def __init__(self) -> None:
        self._lists: dict[int, TensorList] = {}

    def new(self, tensor_list: TensorList) -> int:
        """The number of a new list."""
        number = len(self._lists)
        self._lists[number] = tensor_list
        return number

    def __getitem__(self, number: int) -> TensorList:
        """The list of that number.

        Raises:
            KeyError: there is none.
        """
        return self._lists[number]

    def elements(self) -> Iterator[str]:
        """The names of all elements of all lists."""
        for tensor_list in self._lists.values():
            yield from (name for name in tensor_list.elements if name is not None)

    def copy(self) -> TensorLists:
        """The lists as they are now."""
        copied = TensorLists()
        for number, tensor_list in self._lists.items():
            copied._lists[number] = TensorList(
                list(tensor_list.elements),
                tensor_list.dtype,
                tensor_list.shape,
                dict(tensor_list.gradients),
                tensor_list.adds_up,
            )
        return copied
