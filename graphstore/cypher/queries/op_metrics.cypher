// Answers: everything known of each tensor of some device ops of a run.
// Parameter ops: device ops
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE o.id IN $ops
OPTIONAL MATCH (m)-[:AGAINST]->(g:Op)
RETURN o.name AS op, m.io AS io, m.port AS port, m.state AS state, m.level AS level,
       m.compared AS compared, m.over AS over, m.origin_rank AS origin_rank,
       m.suspicion AS suspicion, m.cause AS cause,
       $$metrics,
       m.failed AS failed, coalesce(g.name, m.golden_name) AS golden_op, m.golden_port AS golden_port,
       m.rule AS rule, m.reason AS reason, m.detail AS detail, m.shape AS shape,
       m.device_dtype AS device_dtype, m.golden_dtype AS golden_dtype,
       m.device_path AS device_path, m.golden_path AS golden_path, m.address AS address,
       m.overflow AS overflow,
       $$split, m.limit_rule AS limit_rule,
       $$figures
ORDER BY m.seq
