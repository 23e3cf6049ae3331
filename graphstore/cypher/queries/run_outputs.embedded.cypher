// Internal: the compared outputs of a run, what queries on arrays need of them.
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(o:Op)
RETURN o.topo AS topo, m.port AS port, m.level AS level, m.cosine_similarity AS cosine,
       m.relative_euclidean_distance AS distance, m.nan AS nan,
       m.device_nonfinite AS device_nonfinite, m.golden_nonfinite AS golden_nonfinite,
       m.elements AS elements, m.different AS different
ORDER BY topo, port, m.seq
