// Answers: originals whose op makes more error of its own in run $after than in run $before.
// By golden tensor, so the device graphs may differ; where op or suspicion is healthy in both
// runs nothing is listed.
// Parameter before: text
// Parameter after: text
// Parameter times: factor
MATCH (r:Run {name: $before}), (s:Run {name: $after})-[:COMPARED]->(m:Metric {io: 'output'})-[:AGAINST]->(b:Op)
WHERE m.suspicion > 3.0 AND m.introduced IS NOT NULL
MATCH (a:Op {graph: r.golden, name: b.name})<-[:AGAINST]-(n:Metric {io: 'output'})
WHERE n.run = r.id AND n.golden_port = m.golden_port AND m.introduced > $times * n.introduced
RETURN b.name AS original, m.golden_port AS output, b.type AS type, n.introduced AS was,
       m.introduced AS is_now, n.guilt AS was_guilty, m.guilt AS guilty
ORDER BY is_now DESC, original, output
