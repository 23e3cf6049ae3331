"""Graph values, stores (embedded and Neo4j) and the queries both answer."""
