// Internal: states and results of the device ops of a run by topo, for a slice of the ops;
// without files and partners.
// Parameter first: number
// Parameter until: number
MATCH (o:Op {graph: $device}) WHERE o.topo >= $first AND o.topo < $until
MATCH (m:Metric {run: $run})-[:OF]->(o)
RETURN o.topo AS topo, o.name AS op, m.io AS io, m.port AS port, m.state AS state, m.level AS level,
       m.compared AS compared, m.failed AS failed, m.reason AS reason, m.detail AS detail,
       m.shape AS shape, m.device_dtype AS device_dtype, m.overflow AS overflow,
       m.role AS role, m.guilt AS guilt, m.introduced AS introduced, m.propagated AS propagated,
       m.floor AS floor, m.suspicion AS suspicion, m.amplification AS amplification,
       m.failure AS failure,
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
       m.device_nonfinite AS device_nonfinite, m.golden_nonfinite AS golden_nonfinite,
       m.different AS different
ORDER BY topo, m.seq
