// Answers: which original ops a device op was made of, and by what evidence.
// Parameter op: device op
MATCH (d:Op {id: $op})-[f:FUSES {run: $run}]->(o:Op)
RETURN f.seq AS seq, d.op AS device, o.op AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port
ORDER BY seq
