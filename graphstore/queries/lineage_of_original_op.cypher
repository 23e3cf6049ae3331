// Answers: which device ops contain an original op, and by what evidence.
// Parameter op: original op
MATCH (d:Op)-[f:FUSES {run: $run}]->(o:Op {id: $op})
RETURN f.seq AS seq, d.op AS device, o.op AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port
ORDER BY seq
