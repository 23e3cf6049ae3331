"""Which tensor stands for which: lineage, matching and pairing of two graphs."""
