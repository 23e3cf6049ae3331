// Internal: the links between the ops of a run, which are named by topo, and their evidence.
MATCH (d:Op)-[f:FUSES {run: $run}]->(o:Op)
RETURN f.seq AS seq, d.topo AS device, o.topo AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port,
       f.confidence AS confidence
ORDER BY seq
