// Answers: all data and call edges of a graph (of a run: the device graph), with ports.
// Window: $end_topo is the number of ops, or less if that gives all rows wanted.
MATCH (a:Op {graph: $graph})-[f:FEEDS]->(b:Op) WHERE a.topo < $end_topo
OPTIONAL MATCH (t:Tensor) WHERE t.op = a.id AND t.port = f.`out`
RETURN a.name AS source, f.`out` AS output, b.name AS target, f.`in` AS input,
       coalesce(f.tensor, t.name, a.name + ':' + cast(f.`out`, 'STRING')) AS tensor,
       f.kind AS kind
ORDER BY a.topo, b.topo, input, output
