// Internal: the errors of a run's outputs with their splits, in any order, for a slice of the
// ops: what is asked of all of them at once, without the other metrics, names and files.
// Parameter first: number
// Parameter until: number
MATCH (m:Metric {run: $run, io: 'output'})-[:OF]->(o:Op)
WHERE o.topo >= $first AND o.topo < $until AND (m.compared OR m.role IS NOT NULL)
RETURN m.seq AS seq, o.topo AS topo, o.name AS op, o.type AS type, m.port AS port,
       m.compared AS compared, m.level AS level, m.golden_name AS golden_op,
       m.golden_port AS golden_port, m.relative_euclidean_distance AS relative_euclidean_distance,
       m.device_nonfinite AS device_nonfinite, m.nan AS nan,
       m.suspicion AS suspicion, $$split
