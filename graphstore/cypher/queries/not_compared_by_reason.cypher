// Answers: how many tensors of a run were not compared, by reason.
MATCH (m:Metric {run: $run}) WHERE m.reason IS NOT NULL
RETURN m.reason AS reason, count(*) AS tensors
ORDER BY tensors DESC, reason
