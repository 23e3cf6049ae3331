// Answers: everything known of each compared or not compared tensor of a run, a slice of them.
// Parameter first: number
// Parameter until: number
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE m.seq >= $first AND m.seq < $until
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
