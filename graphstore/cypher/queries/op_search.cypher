// Answers: ops whose name or type contains a text, whatever its case.
// Parameter text: text
MATCH (o:Op {graph: $graph})
WHERE toLower(coalesce(o.own_name, o.name)) CONTAINS toLower($text) OR toLower(o.type) CONTAINS toLower($text)
RETURN o.topo AS topo, o.name AS op, o.type AS type
ORDER BY topo
