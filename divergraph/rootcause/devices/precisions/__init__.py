"""The built-in arithmetics, one a module: each is its ``PRECISION``."""
