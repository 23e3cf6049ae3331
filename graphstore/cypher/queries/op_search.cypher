// Answers: ops whose name or type contains a text, whatever its case.
// Parameter text: text
// Columns: topo, op, type
// Hits text=relu:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
// Misses text=pool:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.5 over origin
//   relu: Relu(add) error=0.4 over
MATCH (o:Op {graph: $graph})
WHERE toLower(coalesce(o.own_name, o.name)) CONTAINS toLower($text) OR toLower(o.type) CONTAINS toLower($text)
RETURN o.topo AS topo, o.name AS op, o.type AS type
ORDER BY topo
