// Answers: the compared output tensors of a run with the largest relative Euclidean distance.
// NaN and Inf come first; booleans have no distance, so their share that differs counts.
// Parameter limit: number
// Columns: op, output, type, level, cosine_similarity, relative_euclidean_distance, nan, topo
// Hits limit=3:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.002
// Misses limit=3:
//   conv: Conv
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(o:Op)
RETURN o.name AS op, m.port AS output, o.type AS type, m.level AS level,
       m.cosine_similarity AS cosine_similarity,
       m.relative_euclidean_distance AS relative_euclidean_distance, m.nan AS nan, o.topo AS topo
ORDER BY CASE WHEN m.device_nonfinite > m.golden_nonfinite THEN 1 ELSE 0 END DESC,
         CASE WHEN m.relative_euclidean_distance IS NOT NULL THEN m.relative_euclidean_distance
              WHEN m.device_nonfinite + m.golden_nonfinite > 0 THEN 1e308
              WHEN m.elements > 0 THEN 1.0 * m.different / m.elements
              ELSE 0.0 END DESC,
         topo, output
LIMIT $limit
