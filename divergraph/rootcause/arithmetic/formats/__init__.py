"""Value grids and scale layouts, one a module: each is its ``ARITHMETIC``."""
