"""One tensor of both sides: its numbers, drawings in cells, and the same in pixels."""
