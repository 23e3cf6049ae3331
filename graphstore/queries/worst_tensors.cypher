// Answers: the compared output tensors of a run with the largest relative Euclidean distance.
// Parameter limit: number
MATCH (m:Metric {run: $run, io: 'output', compared: true})-[:OF]->(o:Op)
RETURN o.op AS op, m.port AS output, o.type AS type, m.level AS level,
       m.cosine_similarity AS cosine_similarity,
       m.relative_euclidean_distance AS relative_euclidean_distance, m.nan AS nan, o.topo AS topo
ORDER BY CASE WHEN m.relative_euclidean_distance IS NULL THEN 1 ELSE 0 END DESC,
         relative_euclidean_distance DESC, topo, output
LIMIT $limit
