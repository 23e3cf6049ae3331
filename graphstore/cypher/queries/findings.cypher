// Answers: what was found in a run, in words: causes, advice, consistency; the surest first.
// Columns: kind, label, op, port, confidence, sentence
// Hits:
//   add: Add error=0.5 origin cause=lost_bias
// Misses:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.002
MATCH (f:Finding {run: $run}) WHERE f.seq >= 0
OPTIONAL MATCH (f)-[:ABOUT]->(o:Op)
RETURN f.kind AS kind, f.label AS label, coalesce(o.name, f.op_name) AS op, f.port AS port,
       f.confidence AS confidence, f.sentence AS sentence
ORDER BY f.kind, f.confidence DESC, f.seq
