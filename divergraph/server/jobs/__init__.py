"""Commands that a server runs for those who ask: a queue on disk, processes of their own."""
