// Internal: the original ops of the device ops of a run, both by topo, for a slice of the ops.
MATCH (d:Op) WHERE d.id >= $first_node AND d.id < $end_node
MATCH (d)-[f:FUSES {run: $run}]->(o:Op)
RETURN d.topo AS topo, f.seq AS seq, o.topo AS partner
ORDER BY topo, seq
