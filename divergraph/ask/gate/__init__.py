"""Whether a run may pass, held against an older one or a file that stands for it."""
