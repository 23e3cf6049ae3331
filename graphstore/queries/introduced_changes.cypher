// Answers: originals whose op makes more error of its own in run $after than in run $before.
// By golden tensor, so the device graphs may differ; where op or suspicion is healthy in both
// runs nothing is listed.
// Parameter before: text
// Parameter after: text
// Parameter times: factor
MATCH (s:Run {name: $after})-[:COMPARED]->(m:Metric {io: 'output'})-[:AGAINST]->(b:Op)
WHERE m.suspicion > 3.0 AND m.introduced IS NOT NULL
MATCH (r:Run {name: $before})-[:COMPARED]->(n:Metric {io: 'output'})-[:AGAINST]->(a:Op)
WHERE a.name = b.name AND n.golden_port = m.golden_port AND m.introduced > $times * n.introduced
RETURN b.name AS original, m.golden_port AS output, b.type AS type, n.introduced AS was,
       m.introduced AS is_now, n.guilt AS was_guilty, m.guilt AS guilty
ORDER BY is_now DESC, original, output
