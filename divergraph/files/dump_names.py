"""Names of captured files, such that the dump reader finds each tensor again."""

from __future__ import annotations

import re
from pathlib import Path

from graphstore.model import ModelGraph, Op
from importers.dumps.arrays.golden_names import GoldenNames
from importers.dumps.names import MAPPING
from importers.nesting import inlined_names

LONGEST = 200
"""Letters of a file name; the limit of file systems is 255 bytes, some tools add to it."""

_SEPARATORS = str.maketrans({"/": "_", ":": "."})
_UNUSUAL = re.compile(r"[^\w.\-@+=,()\[\] ]")


class DumpFileNames:
    """``{op}.{output}.{timestamp}.npy`` as the golden dumps of other tools; long names told apart.

    What does not make a file name, or would be read as another tensor, is numbered and
    listed in ``mapping.csv``. Format: the project's formats document, section 3.6.
    """

    def __init__(self, graph: ModelGraph, timestamp: int) -> None:
        self._known = GoldenNames(graph)
        self._inlined = inlined_names(graph)
        self._timestamp = timestamp
        self._taken: set[str] = set()
        self._mapped: list[tuple[str, str]] = []
        self.unclear: list[str] = []

    def of_output(self, op: Op, port: int) -> str:
        """The file name of output *port* of *op*."""
        tensor = op.outputs[port].name
        name = self._inlined.get(op.id, op.name)
        numbers = f"{port}.{self._timestamp}"
        stems = [f"{name}.{numbers}", f"{tensor}.0.{self._timestamp}", f"{op.id}.{numbers}"]
        for stem in stems:
            hits = self._known.find(stem.translate(_SEPARATORS))
            if len(hits) == 1 and hits[0].op.id == op.id and hits[0].port == port:
                return self._file(stem)
        self.unclear.append(tensor)
        return self._file(stems[0])

    def of_input(self, name: str) -> str:
        """The file name of graph input *name*."""
        return self._file(f"{name}.0.{self._timestamp}")

    def mapping(self) -> str:
        """The content of ``mapping.csv``; empty if no name needed it."""
        return "".join(f"{short},{full}\n" for short, full in self._mapped)

    def write_mapping(self, folder: Path) -> None:
        """Explain the names in *folder* that need it."""
        if text := self.mapping():
            (folder / MAPPING).write_text(text, encoding="utf-8", errors="backslashreplace")

    def _file(self, stem: str) -> str:
        plain = stem.translate(_SEPARATORS)
        name = f"{plain}.npy"
        usable = not _UNUSUAL.search(plain) and not plain.startswith((".", "-"))
        if usable and len(name.encode()) <= LONGEST and name.lower() not in self._taken:
            self._taken.add(name.lower())
            return name
        short = f"{self._timestamp}{len(self._mapped):06d}.npy"
        self._mapped.append((short, plain.replace("\n", " ")))
        return short


__all__ = ["MAPPING", "DumpFileNames"]
