// Answers: ops that make more error than their precision explains, guilty ones first.
// Columns: topo, op, type, output, guilt, suspicion, introduced, floor, cause, group_of_ops
// Hits:
//   add: Add error=0.5 over guilt=guilty introduced=0.5
// Misses:
//   add: Add error=0.5 over role=carries
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(o:Op)
WHERE m.guilt = 'guilty' OR m.guilt = 'suspect'
RETURN o.topo AS topo, o.name AS op, o.type AS type, m.port AS output, m.guilt AS guilt,
       m.suspicion AS suspicion, m.introduced AS introduced, m.floor AS floor,
       m.cause AS cause, m.split_group AS group_of_ops
ORDER BY CASE WHEN m.guilt = 'guilty' THEN 0 ELSE 1 END,
         CASE WHEN m.suspicion IS NULL THEN -1.0 ELSE m.suspicion END DESC, topo, output
