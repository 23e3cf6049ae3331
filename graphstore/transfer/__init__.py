"""Runs and graphs from store to store: copies, backups, one portable form."""
