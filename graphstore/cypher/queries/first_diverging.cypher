// Answers: ops with an output over a limit, none of whose nearest measured ancestors has one.
// Columns: topo, op, type
// Hits:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
// Misses:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.002
MATCH (m:Metric {run: $run, io: 'output', over: true})-[:OF]->(f:Op)
WITH DISTINCT f
WHERE NOT EXISTS {
  MATCH (p:Op)-[:NEXT_MEASURED {run: $run, back: false}]->(f), (q:Metric)-[:OF]->(p)
  WHERE q.run = $run AND q.io = 'output' AND q.over = true
}
RETURN f.topo AS topo, f.name AS op, f.type AS type
ORDER BY topo
