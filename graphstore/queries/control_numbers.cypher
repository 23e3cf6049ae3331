// Internal: the control edges of a graph as pairs of topo numbers, all in one row.
MATCH (a:Op {graph: $graph})-[:CONTROLS]->(b:Op) RETURN collect([a.topo, b.topo]) AS pairs
