"""Commands that make runs, dumps and files."""
