"""From the user's four paths to a finished run: resolve, link, pair, compare, judge."""

from divergraph.comparison.compare_run import CompareRequest, compare

__all__ = ["CompareRequest", "compare"]
