"""Read graphs and dumps of every supported framework into :mod:`graphstore.model` values."""
