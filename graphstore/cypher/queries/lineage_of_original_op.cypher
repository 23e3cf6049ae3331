// Answers: which device ops contain an original op, and by what evidence.
// Parameter op: original op
MATCH (d:Op)-[f:FUSES {run: $run}]->(o:Op {id: $op})
RETURN f.seq AS seq, d.name AS device, o.name AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port,
       f.confidence AS confidence
ORDER BY seq
