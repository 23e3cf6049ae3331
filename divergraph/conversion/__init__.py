"""Convert dumps and graphs to files of other tools: what ``convert`` does."""

from divergraph.conversion.dump_files import DumpRequest, DumpsConverted, convert_dumps
from divergraph.conversion.graph_files import (
    GraphConverted,
    GraphFormat,
    convert_file,
    convert_stored,
)

__all__ = [
    "DumpRequest",
    "DumpsConverted",
    "GraphConverted",
    "GraphFormat",
    "convert_dumps",
    "convert_file",
    "convert_stored",
]
