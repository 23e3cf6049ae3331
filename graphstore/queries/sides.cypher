// Answers: what the two graphs of a run are called, and how many of their ops are linked.
MATCH (d:Graph {id: $device}), (g:Graph {id: $golden})
OPTIONAL MATCH (a:Op)-[f:FUSES {run: $run}]->(b:Op)
RETURN d.name AS device, d.framework AS device_framework, d.ops AS device_ops,
       g.name AS golden, g.framework AS golden_framework, g.ops AS golden_ops,
       count(DISTINCT a.topo) AS linked_device_ops, count(DISTINCT b.topo) AS linked_golden_ops
