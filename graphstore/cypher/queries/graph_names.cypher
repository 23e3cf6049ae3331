// Internal: what the two graphs of a run are called.
MATCH (d:Graph {id: $device}), (g:Graph {id: $golden})
RETURN d.name AS device, d.framework AS device_framework, d.ops AS device_ops,
       g.name AS golden, g.framework AS golden_framework, g.ops AS golden_ops
