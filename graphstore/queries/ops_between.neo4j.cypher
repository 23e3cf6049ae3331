// Answers: the ops on some way from a start to an end op, both left out.
// Parameter start_op: op
// Parameter end_op: op
MATCH (s:Op {id: $start_op}), (e:Op {id: $end_op})
CALL (s) { MATCH (s)-[:FEEDS*1..]->(x:Op) RETURN collect(DISTINCT x) AS below }
CALL (e) { MATCH (e)<-[:FEEDS*1..]-(y:Op) RETURN collect(DISTINCT y) AS above }
UNWIND below + above AS o
WITH o, count(*) AS sides WHERE sides = 2 AND o.id <> $start_op AND o.id <> $end_op
RETURN o.topo AS topo, o.op AS op, o.type AS type
ORDER BY topo
