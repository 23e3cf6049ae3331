"""A Neo4j server on this machine: its Java, its jars, its process."""
