// Internal: the device ops of the original ops of a run by topo, for a slice of the ops.
// Parameter first: number
// Parameter until: number
MATCH (o:Op {graph: $golden}) WHERE o.topo >= $first AND o.topo < $until
MATCH (d:Op)-[f:FUSES {run: $run}]->(o)
RETURN o.topo AS topo, f.seq AS seq, d.name AS partner
ORDER BY topo, seq
