"""All Cypher: named queries, users' own queries, and what a query may do."""
