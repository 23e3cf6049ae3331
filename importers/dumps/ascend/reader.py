"""Readers of Ascend dump files and of tables of statistics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from graphstore.model import ModelGraph
from importers.contract import Confidence
from importers.dumps.ascend.file import look_at, tensor_ref
from importers.dumps.ascend.index import is_device_dump, scan_device_listing
from importers.dumps.bare.tensor import BareTensor, Identity, found_tensor, plain
from importers.dumps.contract import DumpChoice, DumpReader, FilePlace, FoundDump, RawForm
from importers.dumps.index import DumpIndex, FolderListing, or_damage
from importers.dumps.msprobe.statistics_csv import ENDING, TABLE
from importers.dumps.names import EXCEPTION, MAPPING, OPDEBUG, parse_dump_name, read_mapping


class AscendReader(DumpReader):
    """Dump files of Ascend devices, with the records of overflows beside them."""

    name = "ascend"
    reads = "Ascend dump files, and their folders of any level"
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """By the form of the name alone; records of overflows are no dumps of tensors."""
        is_dump = not name.startswith(OPDEBUG) and is_device_dump(name, {})
        return Confidence.SURE if is_dump else Confidence.NO

    def files_in(self, listing: FolderListing) -> list[str]:
        """Those of the form, or told by ``mapping.csv``; records of overflows where there are no
        others."""
        mapping = read_mapping(listing.folder) if MAPPING in listing.files else {}
        records = [name for name in listing.files if name.startswith(OPDEBUG)]
        tensors = [
            name
            for name in listing.files
            if not name.startswith(OPDEBUG) and is_device_dump(name, mapping)
        ]
        return tensors or records

    def proof(self, path: Path) -> str:
        """The kind of its header."""
        return f"has a header of kind {look_at(path, None).whole_header().format}"

    def lists(self, name: str, folder: str) -> bool:
        """The dump of a failed task holds whatever lay in memory."""
        return not name.startswith(EXCEPTION) and super().lists(name, folder)

    def tensors(self, place: FilePlace, form: RawForm) -> Iterator[BareTensor]:
        """All inputs and outputs in the header."""
        name = parse_dump_name(place.file)
        file = look_at(place.path, name)
        header = file.whole_header()
        op = header.op_name or (name.op_name if name else place.file)
        kind, part = (name.op_type, name.part) if name else ("", "")
        for tensor in header.tensors:
            identity = Identity(place.scope, kind, plain(op), tensor.io, tensor.number, part)
            full = place.below(f"{place.file}.{tensor.io}.{tensor.number}")
            ref = or_damage(partial(tensor_ref, file, tensor, op, tensor.number))
            yield found_tensor(full, place.path, ref, identity, file.timestamp)

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """The tensors by op, and the tables of statistics that stand for others."""
        return scan_device_listing(listing, graph)


class StatisticsReader(DumpReader):
    """Tables of statistics in place of values. The scan of Ascend dumps takes them along, as the
    values of a tensor go before its statistics."""

    name = "statistics"
    reads = "tables of statistics: {dump name}.csv, MindSpore's statistic.csv"
    endings = (ENDING,)
    names_inputs = False

    def claims(self, name: str, folder: str) -> Confidence:
        """By the name of the dump file that a table stands for."""
        is_table = name == TABLE or (
            name.endswith(ENDING) and is_device_dump(name.removesuffix(ENDING), {})
        )
        return Confidence.SURE if is_table else Confidence.NO

    def detect(self, listing: FolderListing) -> Iterator[FoundDump]:
        """By the names of the tables."""
        if tables := self.files_in(listing):
            reason = f"{tables[0]} is named as a table of statistics"
            yield FoundDump(listing.folder, self.name, Confidence.SURE, reason, len(tables))

    def lists(self, name: str, folder: str) -> bool:
        """They hold no values."""
        return False

    def scan(self, listing: FolderListing, graph: ModelGraph, choice: DumpChoice) -> DumpIndex:
        """Nothing: the scan of Ascend dumps takes them along."""
        return DumpIndex()
