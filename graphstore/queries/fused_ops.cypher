// Answers: device ops made of several originals, with their names.
MATCH (o:Op {graph: $graph}) WHERE o.originals > 1
RETURN o.topo AS topo, o.op AS op, o.type AS type, o.originals AS originals,
       o.original_names AS original_names
ORDER BY topo
