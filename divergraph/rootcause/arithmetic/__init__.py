"""How matrix engines read their operands: the formats there are, and those that a run shows."""
