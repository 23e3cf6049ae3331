// Answers: ops with an output over a limit, none of whose nearest measured ancestors has one.
MATCH (m:Metric {run: $run, io: 'output', over: true})-[:OF]->(f:Op)
WITH DISTINCT f
WHERE NOT EXISTS {
  MATCH (p:Op)-[:NEXT_MEASURED {run: $run, back: false}]->(f), (q:Metric)-[:OF]->(p)
  WHERE q.run = $run AND q.io = 'output' AND q.over = true
}
RETURN f.topo AS topo, f.name AS op, f.type AS type
ORDER BY topo
