// Answers: original ops at which an error starts in more than one run of the store.
MATCH (r:Run)-[:COMPARED]->(m:Metric {io: 'output'})-[:AGAINST]->(o:Op)
WHERE m.origin_rank IS NOT NULL
WITH o.name AS original, o.type AS type, r.name AS run, max(m.suspicion) AS most
WITH original, type, count(run) AS runs, max(most) AS suspicion
WHERE runs > 1
RETURN original, type, runs, suspicion
ORDER BY runs DESC, original, type
