// Answers: which original ops a device op was made of, and by what evidence.
// Parameter op: device op
MATCH (d:Op {id: $op})-[f:FUSES {run: $run}]->(o:Op)
RETURN f.seq AS seq, d.name AS device, o.name AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port,
       f.confidence AS confidence
ORDER BY seq
