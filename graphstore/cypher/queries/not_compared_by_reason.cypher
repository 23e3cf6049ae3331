// Answers: how many tensors of a run were not compared, by reason.
// Columns: reason, tensors
// Hits:
//   conv: Conv error=0.1
//   cast: Cast(conv) reason=inserted
// Misses:
//   conv: Conv error=0.001
//   add: Add(conv) error=0.002
MATCH (m:Metric {run: $run}) WHERE m.reason IS NOT NULL
RETURN m.reason AS reason, count(*) AS tensors
ORDER BY tensors DESC, reason
