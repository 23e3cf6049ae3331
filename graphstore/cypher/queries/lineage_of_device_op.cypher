// Answers: which original ops a device op was made of, and by what evidence.
// Parameter op: device op
// Columns: seq, device, original, evidence, device_port, original_port, confidence
// Hits op=conv:
//   conv: Conv originals=conv,bias
// Misses op=cast:
//   conv: Conv
//   cast: Cast(conv) originals=
MATCH (d:Op {id: $op})-[f:FUSES {run: $run}]->(o:Op)
RETURN f.seq AS seq, d.name AS device, o.name AS original, f.evidence AS evidence,
       f.`out` AS device_port, f.origin_out AS original_port,
       f.confidence AS confidence
ORDER BY seq
