// Answers: ops whose inputs' error leaves them so many times as large, the largest first.
// Of errors that came in only: what an op makes itself does not count (see amplifiers).
// Parameter times: factor
// Columns: topo, op, type, output, role, amplification, propagated
// Hits times=2:
//   conv: Conv error=0.1 over
//   add: Add(conv) error=0.5 over amplification=5
// Misses times=2:
//   conv: Conv error=0.1 over
//   add: Add(conv) error=0.1 over amplification=1
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(o:Op)
WHERE m.amplification > $times
RETURN o.topo AS topo, o.name AS op, o.type AS type, m.port AS output, m.role AS role,
       m.amplification AS amplification, m.propagated AS propagated
ORDER BY amplification DESC, topo, output
