// Answers: the measured outputs downstream of a device op and how far off they are.
// The product answers on arrays; this text is what they are held against.
// Parameter op: device op
// Columns: topo, op, type, output, level, relative_euclidean_distance, nan
// Hits op=conv:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
// Misses op=conv:
//   conv: Conv error=0.5 over
//   add: Add(conv)
MATCH (s:Op {id: $op})-[:FEEDS*1..]->(b:Op)
WITH DISTINCT b WHERE b.id <> $op
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(b)
RETURN b.topo AS topo, b.name AS op, b.type AS type, m.port AS output, m.level AS level,
       m.relative_euclidean_distance AS relative_euclidean_distance, m.nan AS nan
ORDER BY topo, output
