// Internal: the ids in the store of some ops of a graph.
// Parameter names: texts
MATCH (o:Op {graph: $graph}) WHERE o.op IN $names
RETURN o.op AS op, o.id AS id
