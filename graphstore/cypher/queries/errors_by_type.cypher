// Answers: how many outputs of each type of device op were compared and are over a limit.
// The product answers on arrays; this text is what they are held against.
// Columns: type, tensors, over, worst
// Hits:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.002
// Misses:
//   conv: Conv reason=inserted
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(o:Op)
RETURN o.type AS type, count(*) AS tensors,
       sum(CASE WHEN m.over THEN 1 ELSE 0 END) AS over,
       max(m.relative_euclidean_distance) AS worst
ORDER BY over DESC, type
