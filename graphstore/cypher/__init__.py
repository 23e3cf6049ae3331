"""All Cypher: the named queries, users' own questions, and what a question may do."""
