// Answers: the ops on some path from a start to an end op, both ends with them.
// The product answers on arrays; this text is what they are held against. At most 65535
// hops: the engine counts no further.
// Parameter start_op: op
// Parameter end_op: op
// Columns: topo, op, type
// Hits start_op=conv end_op=relu:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
// Misses start_op=relu end_op=conv:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
MATCH (s:Op {id: $start_op})
OPTIONAL MATCH (s)-[:FEEDS* SHORTEST 1..65535]->(e:Op {id: $end_op})
WITH s, e WHERE e.id IS NOT NULL OR s.id = $end_op
OPTIONAL MATCH (:Op {id: $start_op})-[:FEEDS* SHORTEST 1..65535]->(o:Op),
               (:Op {id: $end_op})<-[:FEEDS* SHORTEST 1..65535]-(o)
WITH s, coalesce(collect(DISTINCT o.id), []) + [$start_op, $end_op] AS ids
UNWIND ids AS id
MATCH (o:Op {id: id})
RETURN DISTINCT o.topo AS topo, o.name AS op, o.type AS type
ORDER BY topo
