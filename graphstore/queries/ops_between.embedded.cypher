// Answers: the ops on some way from a start to an end op, both with them.
// At most 65535 hops: the engine counts no further.
// Parameter start_op: op
// Parameter end_op: op
MATCH (s:Op {id: $start_op})-[:FEEDS* SHORTEST 1..65535]->(x:Op)
WITH collect(DISTINCT x.id) AS below
MATCH (e:Op {id: $end_op})<-[:FEEDS* SHORTEST 1..65535]-(y:Op)
WITH below, collect(DISTINCT y.id) AS above
MATCH (o:Op {graph: $graph})
WHERE (o.id = $start_op OR o.id IN below) AND (o.id = $end_op OR o.id IN above)
RETURN o.topo AS topo, o.op AS op, o.type AS type
ORDER BY topo
