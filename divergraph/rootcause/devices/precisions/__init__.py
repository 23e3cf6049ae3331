"""The built-in arithmetics, one a file: each is called ``PRECISION`` there."""
