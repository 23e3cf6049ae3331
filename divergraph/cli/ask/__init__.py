"""Commands that ask a stored run or graph."""
