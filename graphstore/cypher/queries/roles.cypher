// Answers: what each device op does to the error: introduces, carries, amplifies, attenuates.
// Of outputs whose error was split by the root-cause analysis.
// Columns: topo, op, type, output, role, guilt, introduced, propagated, floor, suspicion, amplification
// Hits:
//   conv: Conv error=0.5 role=introduces introduced=0.5
// Misses:
//   conv: Conv error=0.5
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(o:Op)
WHERE m.role IS NOT NULL
RETURN o.topo AS topo, o.name AS op, o.type AS type, m.port AS output, m.role AS role,
       m.guilt AS guilt, m.introduced AS introduced, m.propagated AS propagated,
       m.floor AS floor, m.suspicion AS suspicion, m.amplification AS amplification
ORDER BY topo, output
