// Answers: the ops on some way from a start to an end op, both left out.
// At most 65535 hops: the engine counts no further.
// Parameter start_op: op
// Parameter end_op: op
MATCH (s:Op {id: $start_op})-[:FEEDS* SHORTEST 1..65535]->(o:Op),
      (e:Op {id: $end_op})<-[:FEEDS* SHORTEST 1..65535]-(o)
WHERE o.id <> $start_op AND o.id <> $end_op
RETURN DISTINCT o.topo AS topo, o.op AS op, o.type AS type
ORDER BY topo
