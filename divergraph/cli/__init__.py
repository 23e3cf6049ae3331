"""The ``divergraph`` command."""
