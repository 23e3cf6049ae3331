// Answers: all data and call edges of a graph (of a run: the device graph), with ports.
// Window: sources before $end_topo; those from $whole_topo on with targets before
// $end_target only.
// Columns: source, output, target, input, tensor, kind
// Hits:
//   conv: Conv
//   add: Add(conv)
// Misses:
//   conv: Conv
//   add: Add
MATCH (a:Op {graph: $graph})-[f:FEEDS]->(b:Op)
WHERE a.topo < $end_topo AND (a.topo < $whole_topo OR b.topo < $end_target)
OPTIONAL MATCH (t:Tensor {op: a.id}) WHERE t.port = f.`out`
RETURN a.name AS source, f.`out` AS output, b.name AS target, f.`in` AS input,
       coalesce(f.tensor, t.name, a.name + ':' + toString(f.`out`)) AS tensor,
       f.kind AS kind
ORDER BY a.topo, b.topo, input, output
