// Internal: the state of each device op of a run in topo order.
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE m.seq >= 0
WITH DISTINCT o.name AS op, o.topo AS topo, m.state AS state
RETURN op, state
ORDER BY topo
