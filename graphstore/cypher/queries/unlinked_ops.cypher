// Answers: device ops that are linked with no original.
// Columns: topo, op, type, originals
// Hits:
//   cast: Cast originals=
// Misses:
//   conv: Conv
MATCH (o:Op {graph: $device})
WHERE NOT EXISTS { MATCH (o)-[:FUSES {run: $run}]->(:Op) }
RETURN o.topo AS topo, o.name AS op, o.type AS type, o.originals AS originals
ORDER BY topo
