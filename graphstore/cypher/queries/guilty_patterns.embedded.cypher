// Answers: types of device ops, with what they were made of, guilty in more than one run.
MATCH (r:Run)-[:COMPARED]->(m:Metric {io: 'output'})-[:OF]->(d:Op)
WHERE m.origin_rank IS NOT NULL
MATCH (d)-[f:FUSES]->(o:Op)
WHERE f.run = r.id
WITH r.name AS run, d.id AS id, d.type AS type, list_sort(collect(DISTINCT o.type)) AS pattern
WITH type, pattern, count(DISTINCT run) AS runs, count(DISTINCT id) AS ops
WHERE runs > 1
RETURN type, pattern, runs, ops
ORDER BY runs DESC, type, size(pattern)
