// Internal: what a table shows of the ops of a graph, in topo order, a slice of them.
MATCH (o:Op) WHERE o.id >= $first_node AND o.id < $end_node
RETURN o.topo AS topo, o.own_name AS own_name, o.type AS type, o.subgraph AS subgraph,
       o.originals AS originals, o.original_names AS original_names
ORDER BY topo
