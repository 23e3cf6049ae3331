// Answers: all ops that an op feeds, over any distance.
// The product answers on arrays; this text is what they are held against.
// Parameter op: op
// Columns: topo, op, type
// Hits op=conv:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
// Misses op=relu:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
MATCH (s:Op {id: $op})-[:FEEDS*1..]->(b:Op)
WITH DISTINCT b WHERE b.id <> $op
RETURN b.topo AS topo, b.name AS op, b.type AS type
ORDER BY topo
