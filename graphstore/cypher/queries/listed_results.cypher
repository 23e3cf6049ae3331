// Internal: states and results of the device ops of a run by topo, for a slice of the ops;
// without files and partners.
MATCH (o:Op) WHERE o.id >= $first_node AND o.id < $end_node
MATCH (m:Metric {run: $run})-[:OF]->(o)
RETURN o.topo AS topo, m.io AS io, m.port AS port, m.state AS state, m.level AS level,
       m.compared AS compared, m.failed AS failed, m.reason AS reason, m.detail AS detail,
       m.shape AS shape, m.device_dtype AS device_dtype, m.suspicion AS suspicion, $$brief_split,
       $$metrics
ORDER BY topo, m.seq
