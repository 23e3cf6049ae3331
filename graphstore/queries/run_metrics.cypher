// Answers: everything known of each compared or not compared tensor of a run, a slice of them.
// Parameter first: number
// Parameter until: number
MATCH (m:Metric {run: $run})-[:OF]->(o:Op) WHERE m.seq >= $first AND m.seq < $until
OPTIONAL MATCH (m)-[:AGAINST]->(g:Op)
RETURN o.name AS op, m.io AS io, m.port AS port, m.state AS state, m.level AS level,
       m.compared AS compared, m.over AS over, m.origin_rank AS origin_rank,
       m.suspicion AS suspicion, m.cause AS cause,
       m.cosine_similarity AS cosine_similarity,
       m.max_absolute_error AS max_absolute_error,
       m.accumulated_relative_error AS accumulated_relative_error,
       m.relative_euclidean_distance AS relative_euclidean_distance,
       m.kullback_leibler_divergence AS kullback_leibler_divergence,
       m.device_mean AS device_mean, m.device_std AS device_std,
       m.golden_mean AS golden_mean, m.golden_std AS golden_std,
       m.mean_absolute_error AS mean_absolute_error,
       m.root_mean_square_error AS root_mean_square_error,
       m.max_relative_error AS max_relative_error,
       m.mean_relative_error AS mean_relative_error, m.nan AS nan,
       m.notes_json AS notes_json, m.elements AS elements,
       m.device_nonfinite AS device_nonfinite, m.golden_nonfinite AS golden_nonfinite, m.different AS different,
       m.failed AS failed, coalesce(g.name, m.golden_name) AS golden_op, m.golden_port AS golden_port,
       m.rule AS rule, m.reason AS reason, m.detail AS detail, m.shape AS shape,
       m.device_dtype AS device_dtype, m.golden_dtype AS golden_dtype,
       m.device_path AS device_path, m.golden_path AS golden_path, m.address AS address,
       m.overflow AS overflow
ORDER BY m.seq
