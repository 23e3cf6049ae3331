// Internal: the device ops of the original ops of a run, both by topo, for a slice of the ops.
MATCH (o:Op) WHERE o.id >= $first_node AND o.id < $end_node
MATCH (d:Op)-[f:FUSES {run: $run}]->(o)
RETURN o.topo AS topo, f.seq AS seq, d.topo AS partner
ORDER BY topo, seq
