"""Names and edges of large graphs, kept beside their databases for the next process."""
