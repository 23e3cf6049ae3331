// Internal: the original ops of the device ops of a run, both by topo, for a slice of the ops.
// Parameter first: number
// Parameter until: number
MATCH (d:Op {graph: $device}) WHERE d.topo >= $first AND d.topo < $until
MATCH (d)-[f:FUSES {run: $run}]->(o:Op)
RETURN d.topo AS topo, f.seq AS seq, o.topo AS partner
ORDER BY topo, seq
