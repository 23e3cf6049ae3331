"""From the user's four paths to a finished run: resolve, link, pair, compare, judge."""

from divergraph.pipeline.compare_run import CompareRequest, compare

__all__ = ["CompareRequest", "compare"]
