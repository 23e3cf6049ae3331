"""Notes and baselines over HTTP."""
