// Answers: ops whose inputs' error leaves them so many times as large, the largest first.
// Of errors that came in only: what an op makes itself does not count (see amplifiers).
// Parameter times: factor
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(o:Op)
WHERE m.amplification > $times
RETURN o.topo AS topo, o.name AS op, o.type AS type, m.port AS output, m.role AS role,
       m.amplification AS amplification, m.propagated AS propagated
ORDER BY amplification DESC, topo, output
