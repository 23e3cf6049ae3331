// Answers: device ops that are linked with no original.
// Window: $end_topo is the number of ops, or less if that gives all rows wanted.
MATCH (o:Op {graph: $device}) WHERE o.topo < $end_topo
AND NOT EXISTS { MATCH (o)-[:FUSES {run: $run}]->(:Op) }
RETURN o.topo AS topo, o.op AS op, o.type AS type, o.originals AS originals
ORDER BY topo
