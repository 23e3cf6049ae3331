// Answers: the ops on some path from a start to an end op, both ends with them.
// The product answers on arrays; this text is what they are held against.
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
MATCH (s:Op {id: $start_op}), (e:Op {id: $end_op})
CALL (s) { MATCH (s)-[:FEEDS*0..]->(x:Op) RETURN collect(DISTINCT x) AS below }
CALL (e) { MATCH (e)<-[:FEEDS*0..]-(y:Op) RETURN collect(DISTINCT y) AS above }
UNWIND below + above AS o
WITH o, count(*) AS sides WHERE sides = 2
RETURN o.topo AS topo, o.name AS op, o.type AS type
ORDER BY topo
