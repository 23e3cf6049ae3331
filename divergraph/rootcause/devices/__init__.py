"""Device arithmetics: what a device computes in, found from its dumps and imitated."""
