// Internal: the data and call edges of a graph as pairs of topo numbers, all in one row.
MATCH (a:Op {graph: $graph})-[:FEEDS]->(b:Op) RETURN collect([a.topo, b.topo]) AS pairs
