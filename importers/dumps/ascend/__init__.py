"""Ascend's own dump files: headers, statistics, overflow records."""
