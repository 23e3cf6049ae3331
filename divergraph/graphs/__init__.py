"""Which device tensor corresponds to which golden one: lineage, matching and pairing."""
