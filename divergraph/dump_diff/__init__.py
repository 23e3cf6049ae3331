"""Dump against dump without any graph: two files or folders, paired by name."""

from divergraph.dump_diff.diff_dumps import DiffRequest, DiffResult, PairDiff, diff_dumps

__all__ = ["DiffRequest", "DiffResult", "PairDiff", "diff_dumps"]
