// Answers: device ops whose error is so many times that of the worst measured op before them.
// The product answers on arrays; this text is what they are held against. Errors are
// relative Euclidean distances; those up to 0.001 are not shown.
// Parameter times: factor
// Columns: topo, op, type, before, error
// Hits times=10:
//   conv: Conv error=0.01
//   add: Add(conv) error=0.5 over
// Misses times=10:
//   conv: Conv error=0.4 over
//   add: Add(conv) error=0.5 over
MATCH (p:Op)-[:NEXT_MEASURED {run: $run, back: false}]->(o:Op),
      (q:Metric {run: $run, io: 'output', compared: true})-[:OF]->(p)
WITH o, max(q.relative_euclidean_distance) AS before
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(o)
WITH o, before, max(m.relative_euclidean_distance) AS error
WHERE error > 0.001 AND error > $times * before
RETURN o.topo AS topo, o.name AS op, o.type AS type, before, error
ORDER BY error DESC, topo
