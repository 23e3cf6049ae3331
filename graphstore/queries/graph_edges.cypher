// Answers: all data and call edges of a graph (of a run: the device graph), with ports.
MATCH (a:Op {graph: $graph})-[f:FEEDS]->(b:Op)
RETURN a.op AS source, f.`out` AS output, b.op AS target, f.`in` AS input,
       f.tensor AS tensor, f.kind AS kind
ORDER BY a.topo, b.topo, input, output
