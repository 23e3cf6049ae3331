// Answers: ops whose dumped input is not what their producer's dumped output was.
// Both were held against the same golden tensor, yet have another mean or spread: memory was
// written over in between.
MATCH (i:Metric {run: $run, io: 'input', compared: true})-[:OF]->(o:Op),
      (p:Op)-[f:FEEDS]->(o),
      (w:Metric {run: $run, io: 'output', compared: true})-[:OF]->(p)
WHERE f.`in` = i.port AND w.port = f.`out`
  AND (i.device_mean <> w.device_mean OR i.device_std <> w.device_std
       OR i.device_nonfinite <> w.device_nonfinite)
RETURN o.topo AS topo, o.name AS op, i.port AS input, p.name AS producer,
       i.device_mean AS taken, w.device_mean AS given
ORDER BY topo, input
