// Internal: the tensors of a run that were compared or are over a limit, in saved order: whose they
// are, and what questions about all of them need.
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE m.compared OR m.over
RETURN o.topo AS topo, m.io AS io, m.port AS port, m.compared AS compared, m.over AS over,
       m.overflow AS overflow
ORDER BY m.seq
