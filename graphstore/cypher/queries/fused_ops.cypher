// Answers: device ops made of several originals, with their names.
// Window: $end_topo is the number of ops, or less if that gives all rows wanted.
// Columns: topo, op, type, originals, original_names
// Hits:
//   conv: Conv originals=conv,bias
// Misses:
//   conv: Conv
MATCH (o:Op {graph: $graph}) WHERE o.originals > 1 AND o.topo < $end_topo
RETURN o.topo AS topo, o.name AS op, o.type AS type, o.originals AS originals,
       o.original_names AS original_names
ORDER BY topo
