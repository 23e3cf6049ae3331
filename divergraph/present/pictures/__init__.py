"""What a run and its tensors look like: each picture described once, drawn as SVG here and in cells
of a terminal by ``tui``."""
