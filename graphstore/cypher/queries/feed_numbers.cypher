// Internal: the data and call edges of a graph as pairs of topo numbers, all in one row;
// a pair is one number, its source 2^32 times its value.
MATCH (a:Op {graph: $graph})-[:FEEDS]->(b:Op) RETURN collect(a.topo * 4294967296 + b.topo) AS pairs
