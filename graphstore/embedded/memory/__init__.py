"""What a team keeps in the folder of a store, beside its runs."""
