// Answers: all ops of a graph (of a run: the device graph) in topo order.
MATCH (o:Op {graph: $graph})
RETURN o.topo AS topo, o.op AS op, o.type AS type, o.subgraph AS subgraph,
       o.original_names AS original_names
ORDER BY topo
