"""View 6: one tensor of both sides."""
