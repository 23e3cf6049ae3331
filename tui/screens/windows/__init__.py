"""Windows over a view: they ask, list or draw, and are closed again."""
