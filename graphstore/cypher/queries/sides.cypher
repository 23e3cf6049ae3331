// Answers: what the two graphs of a run are called, and how many of their ops are linked.
OPTIONAL MATCH (a:Op)-[:FUSES {run: $run}]->(b:Op)
WITH count(DISTINCT a) AS linked_device_ops, count(DISTINCT b) AS linked_golden_ops
MATCH (d:Graph {id: $device}), (g:Graph {id: $golden})
RETURN d.name AS device, d.framework AS device_framework, d.ops AS device_ops,
       g.name AS golden, g.framework AS golden_framework, g.ops AS golden_ops,
       linked_device_ops, linked_golden_ops
