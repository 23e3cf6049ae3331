// Internal: the ids, names and types of all ops of a graph in topo order.
MATCH (o:Op {graph: $graph})
RETURN o.op AS op, coalesce(o.own_name, o.op) AS name, o.type AS type
ORDER BY o.topo
