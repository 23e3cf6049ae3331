// Answers: all ops of a graph (of a run: the device graph) in topo order.
// Window: $end_topo is the number of ops, or less if that gives all rows wanted.
MATCH (o:Op {graph: $graph}) WHERE o.topo < $end_topo
RETURN o.topo AS topo, o.name AS op, o.type AS type, o.subgraph AS subgraph,
       o.original_names AS original_names
ORDER BY topo
