// Internal: which original ops each device op of a run was made of, and by what evidence.
MATCH (d:Op)-[f:FUSES {run: $run}]->(o:Op)
RETURN f.seq AS seq, d.name AS device, o.name AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port,
       f.confidence AS confidence
ORDER BY seq
