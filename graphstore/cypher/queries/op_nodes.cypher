// Internal: the ids in the store of some ops of a graph.
// Parameter names: texts
MATCH (o:Op {graph: $graph}) WHERE o.name IN $names
RETURN o.name AS op, o.id AS id
