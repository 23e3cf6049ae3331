"""How what a device was fed follows from what golden was fed."""
