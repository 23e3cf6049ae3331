// Internal: the device ops of the original ops of a run, both by topo, for a slice of the ops.
// Parameter first: number
// Parameter until: number
MATCH (o:Op {graph: $golden}) WHERE o.topo >= $first AND o.topo < $until
MATCH (d:Op)-[f:FUSES {run: $run}]->(o)
RETURN o.topo AS topo, f.seq AS seq, d.topo AS partner
ORDER BY topo, seq
